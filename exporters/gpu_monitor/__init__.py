"""`exporters gpu-monitor`: probes GPUs through pods that the scheduler places, and writes GPURuntimeError.

In `record`, `ends`, `vouching`, `nodes`, `patches` nothing but data changes hands; `cluster` alone calls the API for
pods and nodes; `monitor` is the leader's round; `service` puts it together. Which pods there are to be is decided in
`exporters.probe_pods`, what findings mean in `exporters.verdict`.
"""

from exporters.gpu_monitor.service import GpuMonitorService

__all__ = ["GpuMonitorService"]
