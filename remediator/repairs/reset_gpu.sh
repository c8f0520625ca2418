# Resets GPUs by UUID, all of them if none is named. Never one that a process uses.
repair=reset_gpu
guard
driver=${NODEMEND_DRIVER_ROOT:-/}

smi() { # The driver's tools are the host's, or in a folder of it where a driver container has put them.
    if [ "$driver" = / ]; then
        on_host nvidia-smi "$@"
    fi
    on_host chroot "$driver" nvidia-smi "$@"
}

for uuid; do
    case $uuid in
        GPU-*[!0-9A-Fa-f-]* | GPU-) misused "$uuid is no UUID of a GPU" ;;
        GPU-*) ;;
        MIG-*) refuse "$uuid is a part of a GPU; only whole ones can be reset" ;;
        *) misused "$uuid is no UUID of a GPU" ;;
    esac
done
bounded 60 smi --query-gpu=uuid --format=csv,noheader || refuse "nvidia-smi: exit $?: $said"
present=$(printf '%s\n' "$said" | grep -o 'GPU-[0-9A-Fa-f-]*') || refuse "the driver shows no GPU"
for uuid; do
    printf '%s\n' "$present" | grep -Fqx -e "$uuid" || refuse "the driver does not show $uuid"
done

bounded 60 smi --query-compute-apps=gpu_uuid,pid --format=csv,noheader ||
    refuse "cannot see who uses the GPUs: exit $?: $said"
users=$(printf '%s\n' "$said" | grep '^GPU-[0-9A-Fa-f-]*, *[0-9]') || users=
wanted=$*
for uuid in ${wanted:-$present}; do
    if user=$(printf '%s\n' "$users" | grep -F -m1 -e "$uuid,"); then
        refuse "in use (GPU, process): $user"
    fi
done

reset() { # OPTIONS...
    bounded 120 smi --gpu-reset "$@"
    code=$?
    [ "$code" -ne 0 ] || return 0
    case $code:$said in
        124:*) unknown "nvidia-smi --gpu-reset $*: $said" ;;
        *in\ use*) [ -n "$ended" ] || refuse "nvidia-smi --gpu-reset $*: $said" ;;
    esac
    failed "nvidia-smi --gpu-reset $*: exit $code: $said"
}

claim
ended=
if [ $# -eq 0 ]; then
    # All at once: GPUs that are linked to each other can be reset in no other way on some machines.
    reset
fi
for uuid; do
    reset -i "$uuid"
    ended="$ended $uuid"
done
done_with "reset: ${ended:-all GPUs}"
