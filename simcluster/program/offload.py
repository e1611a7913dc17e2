"""States that live outside the GPU: what moves, how much of it, and how fast.

Gradients go to the host as they are summed, the processors update the states there (ZeRO-Offload: Ren et al. 2021,
USENIX ATC), and updated parameters come back. On drives the states are read before an update and written after it
(ZeRO-Infinity: Rajbhandari et al. 2021, SC).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_INFINITE = float("inf")


@dataclass(frozen=True, slots=True)
class OffloadPlan:
    """Rates are those of one GPU while all GPUs of its node move [bytes/s]; 0 for drives that are not used.

    device              where the states live: cpu or nvme
    to_host_bytes_per_s, to_gpu_bytes_per_s   copies between GPU and host
    update_bytes_per_s  of host memory, for the update
    state_bytes         bytes per parameter that an update reads and writes: optimizer states, and weights in fp32
    parameter_bytes     bytes of a parameter as it is copied up
    apart               that copy is made by the update; else the states hold the parameter as it is
    parameters          shards of parameters live in the host too: each is copied up before it is gathered
    """

    device: str
    to_host_bytes_per_s: float
    to_gpu_bytes_per_s: float
    update_bytes_per_s: float
    state_bytes: float = 12.0
    parameter_bytes: float = 2.0
    apart: bool = True
    parameters: bool = False
    read_bytes_per_s: float = 0.0
    write_bytes_per_s: float = 0.0

    @property
    def drives(self) -> bool:
        """Whether states are read from drives and written to them."""
        return self.device == "nvme"

    def update_bytes(self, gradient_bytes: float) -> float:
        """Bytes of host memory that an update moves per parameter: a gradient, the states twice, a parameter.

        >>> OffloadPlan("cpu", 25e9, 25e9, 50e9).update_bytes(4.0)
        30.0
        """
        return gradient_bytes + 2 * self.state_bytes + (self.parameter_bytes if self.apart else 0.0)

    def host_bytes(self, gradient_bytes: float) -> float:
        """Bytes of host memory per parameter, states that are on drives not counted.

        >>> OffloadPlan("cpu", 25e9, 25e9, 50e9).host_bytes(4.0)
        18.0
        """
        copies = gradient_bytes + (self.parameter_bytes if self.apart or self.drives else 0.0)
        return copies if self.drives else copies + self.state_bytes

    def free(self) -> OffloadPlan:
        """The same tasks at no cost: what a step takes without them."""
        return replace(
            self,
            to_host_bytes_per_s=_INFINITE,
            to_gpu_bytes_per_s=_INFINITE,
            update_bytes_per_s=_INFINITE,
            read_bytes_per_s=_INFINITE,
            write_bytes_per_s=_INFINITE,
        )
