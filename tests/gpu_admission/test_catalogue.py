"""The catalogue's file: one for each way to be wrong, the defaults, and what the compiled one knows."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from chassis.config import load_settings
from chassis.errors import ConfigError
from gpu_admission.catalogue import (
    CatalogueSettings,
    NamespaceView,
    compile_catalogue,
    parse_quantity,
)
from tests.gpu_admission.admitting import CATALOGUES, CLUSTER, catalogue_of, settings_of, with_model

BAD = Path(__file__).parents[1] / "bad_configs" / "gpu_admission_catalogue"

MISTAKES = {
    "alias_is_an_id": 'models[1].aliases[0].name: "l4" already names the model l4; give each model its own names',
    "backend_default_missing": "defaults.backend: no such back-end; backends has amd",
    "backend_resource": "backends.whole.resource: write an extended resource with its domain, like nvidia.com/gpu",
    "backend_resource_of_kubernetes": "backends.whole.resource: kubernetes.io is Kubernetes' own domain; extended resources have another",
    "backend_resource_ours": "backends.whole.resource: preferred.jp/gpu-... is how pods ask; the nodes' resource needs another name",
    "backend_type": "backends.whole.type: must be 'device_plugin'",
    "backend_unknown": "models[0].variants[0].backend: no such back-end; backends has whole",
    "camel_case": 'models[0].variants[0].vramGB: unknown key; did you mean "vram_gb"?',
    "class_begins_twice": "priority_policy[2].min_priority: another class begins here too",
    "class_not_to_choose": "class_levers.pods_may_choose[0]: no such class; priority_policy has high, low",
    "class_twice": "priority_policy[1].name: another class has this name; give each its own",
    "class_unknown": "namespace_policy[0].class: no such class; priority_policy has high, low",
    "class_without_rest": "priority_policy: exactly one class must have no min_priority: it takes all other pods",
    "cpu_class_unknown": "cpu_policy.classes[0]: no such class; priority_policy has high, low",
    "cpu_resource_of_a_backend": "cpu_policy.resource: a back-end has this resource; CPUs need their own",
    "cpu_resource_ours": "cpu_policy.resource: preferred.jp/gpu-... is how pods ask; the nodes' resource needs another name",
    "cpus": 'cpu_policy.capacity[0].cpus: write a number of CPUs like 32 or "2500m", or allocatable',
    "device_resource": "cpu_policy.device_resources[0]: write a resource's name with its domain; * and ? stand for characters, like nvidia.com/*",
    "exclusion_without_reason": "models[0].exclude_from_any.reason: missing; add it",
    "id_any": 'models[0].id: "any" is reserved; any, mem, mem-... and unknown name no model',
    "id_capital": "models[0].id: use small letters, digits and single hyphens, at most 52, like a100 or rtx-4090",
    "id_ends_like_vram": "models[0].id: must not end like an amount of VRAM; give the VRAM as vram_gb of a variant",
    "id_mem": 'models[0].id: "mem-shared" is reserved; any, mem, mem-... and unknown name no model',
    "id_twice": 'models[1].id: "l4" already names the model l4; give each model its own names',
    "id_unknown": 'models[0].id: "unknown" is reserved; any, mem, mem-... and unknown name no model',
    "label_value": "models[0].variants[0].node_label_values[0]: write a label's value: letters, digits, dots, _ and -, at most 63",
    "label_value_twice": "models[1].variants[0].node_label_values[0]: nvidia.com/gpu.product=NVIDIA-L4 already means l4 with 24 GB; remove one",
    "models_missing": "models: missing; add it",
    "namespace_match_empty": "namespace_policy[0].match: give names, labels or both; for every namespace, use defaults",
    "namespace_model_unknown": "namespace_policy[0].allowed_models[0]: no such model; write the id of one in models",
    "namespace_name": "namespace_policy[0].match.names[0]: write a namespace's name; * and ? stand for characters, like intern-*",
    "no_labels": "models[0].variants[0].node_label_values: give 1 to 1000 entries, not 0",
    "no_models": "models: give 1 to 1000 entries, not 0",
    "no_variants": "models[0].variants: give 1 to 1000 entries, not 0",
    "prefix": "prefix: write a domain, like preferred.jp",
    "raw_gpu": "defaults.raw_gpu: must be 'allow', 'warn' or 'deny'",
    "toleration_exists_value": "models[0].tolerations[0]: operator Exists takes no value; leave it out, or use Equal",
    "toleration_value_not_text": "models[0].tolerations[0].value: YAML reads this as a boolean, not as text; put it in quotes",
    "toleration_without_key": "models[0].tolerations[0]: without a key, operator must be Exists; that tolerates every taint",
    "unknown_key": 'backend: unknown key; did you mean "backends"?',
    "until_date": "models[0].exclude_from_any.until: give the time with its zone, like 2026-12-10T00:00:00Z",
    "until_without_zone": "models[0].exclude_from_any.until: give the time with its zone, like 2026-12-10T00:00:00Z",
    "vram_text": "models[0].variants[0].vram_gb: must be a valid integer",
    "vram_twice": "models[0].variants[1].vram_gb: 24 GB is given twice; put all its node labels into one variant",
    "vram_zero": "models[0].variants[0].vram_gb: must be greater than or equal to 1",
}


def test_each_bad_file_has_its_mistake_here() -> None:
    assert {path.stem for path in BAD.glob("*.yaml")} == set(MISTAKES)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_bad_file_is_told_in_one_line(name: str) -> None:
    file = BAD / f"{name}.yaml"

    with pytest.raises(ConfigError) as refused:
        load_settings(file, CatalogueSettings)

    assert refused.value.mistakes == (f"{file}: {MISTAKES[name]}",)


def loaded(folder: Path, text: str) -> CatalogueSettings:
    file = folder / "catalogue.yaml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file, CatalogueSettings)


SMALLEST = "models: [{id: l4, variants: [{vram_gb: 24, node_label_values: [NVIDIA-L4]}]}]"


def test_the_smallest_file_has_sensible_defaults(tmp_path: Path) -> None:
    catalogue = compile_catalogue(loaded(tmp_path, SMALLEST))

    assert (catalogue.prefix, catalogue.key_prefix) == ("preferred.jp", "preferred.jp/gpu-")
    assert catalogue.annotation == "preferred.jp/gpu-selection"
    assert catalogue.native_resources == {"nvidia.com/gpu"}
    assert [(each.name, each.smallest) for each in catalogue.classes] == [
        ("high", True),
        ("low", False),
    ]
    assert catalogue.variants[0].label_key == "nvidia.com/gpu.product"
    assert catalogue.leaves_alone("kube-system")
    assert not catalogue.leaves_alone("default")
    assert catalogue.cpu is None


def test_the_end_of_an_exclusion_is_read_as_yaml_has_times(tmp_path: Path) -> None:
    text = SMALLEST.replace(
        "l4, ", "l4, exclude_from_any: {reason: R, until: 2026-12-10T09:30:00+09:00}, "
    )

    exclusion = compile_catalogue(loaded(tmp_path, text)).models[0].exclusion

    assert exclusion is not None
    assert exclusion.text == "until 2026-12-10T09:30:00+0900 (R)"


@pytest.mark.parametrize("path", sorted(CATALOGUES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_catalogue_of_the_tests_is_a_file_that_loads(path: Path) -> None:
    compile_catalogue(load_settings(path, CatalogueSettings))


def test_two_replicas_with_the_same_content_have_the_same_generation() -> None:
    again = yaml.safe_load(yaml.safe_dump(settings_of(), sort_keys=True))

    assert compile_catalogue(CatalogueSettings.model_validate(again)).generation == (
        CLUSTER.generation
    )


@pytest.mark.parametrize(
    "change",
    [
        {"prefix": "example.com"},
        {"models": with_model("a100", exclude_from_any={"reason": "INC-1"})},
        {"defaults": {"raw_gpu": "deny"}},
    ],
)
def test_any_change_is_another_generation(change: dict[str, Any]) -> None:
    assert catalogue_of(**change).generation != CLUSTER.generation


def test_models_and_variants_are_found_by_their_names() -> None:
    a100 = CLUSTER.find("a100")

    assert a100 is not None
    assert CLUSTER.find("ampere-a100") is a100
    assert CLUSTER.find("any") is None
    assert [variant.id for variant in a100.variants] == ["a100-40gb", "a100-80gb"]
    assert CLUSTER.variant("a100-80gb") is a100.variants[1]
    assert CLUSTER.variant("a100-81gb") is None


def test_sizes_are_in_order_whatever_the_file_says() -> None:
    a100 = next(each for each in settings_of()["models"] if each["id"] == "a100")
    turned = with_model("a100", variants=list(reversed(a100["variants"])))

    assert [each.id for each in catalogue_of(models=turned).find("a100").variants] == [  # type: ignore[union-attr]
        "a100-40gb",
        "a100-80gb",
    ]


@pytest.mark.parametrize(
    ("namespace", "fits"),
    [("intern-1", True), ("intern-", True), ("an-intern-1", False), ("intern", False)],
)
def test_a_glob_is_the_whole_name(namespace: str, fits: bool) -> None:
    policy = [{"match": {"names": ["intern-*"]}, "max_gpus_per_pod": 1}]

    rules = catalogue_of(namespace_policy=policy).rules_for(NamespaceView(namespace, {}))

    assert (rules.max_gpus_per_pod == 1) == fits


def test_names_and_labels_must_both_fit() -> None:
    policy = [{"match": {"names": ["a*"], "labels": {"x": "1", "y": "2"}}, "max_gpus_per_pod": 1}]
    catalogue = catalogue_of(namespace_policy=policy)

    def limited(name: str, labels: dict[str, str] | None) -> bool:
        return catalogue.rules_for(NamespaceView(name, labels)).max_gpus_per_pod == 1

    assert limited("a", {"x": "1", "y": "2", "z": "3"})
    assert not limited("b", {"x": "1", "y": "2"})
    assert not limited("a", {"x": "1"})
    assert not limited("a", None)
    assert catalogue.needs_namespace_labels
    assert not CLUSTER.needs_namespace_labels


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        ("1.5", 1.5),
        ("250m", 0.25),
        ("1Gi", 2**30),
        ("5e1", 50),
        (".5", 0.5),
        ("1.", 1),
        (7, 7),
        (0.5, 0.5),
    ],
)
def test_a_quantity_is_exact(text: Any, number: float) -> None:
    assert parse_quantity(text) == number


@pytest.mark.parametrize(
    "text", ["", "1 ", "1KI", "0x1", "1e", "--1", "1.1.1", "Ki", None, True, []]
)
def test_what_kubernetes_would_not_read_is_no_quantity(text: Any) -> None:
    assert parse_quantity(text) is None
