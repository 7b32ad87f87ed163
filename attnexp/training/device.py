"""The machine under a run: device, threads, number format, memory."""

import ctypes
import resource
import sys

import torch

from attnexp import memory
from attnexp.config.schema import Device, Precision, RunConfig, TrainConfig
from attnexp.errors import UserError
from attnexp.model import size


def prepare(config: TrainConfig) -> torch.device:
    """Set the number of threads and find the device. Raises `UserError` for CUDA without CUDA."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    _keep_freed_memory()
    has_cuda = torch.cuda.is_available()
    if config.device is Device.cuda and not has_cuda:
        raise UserError(
            f"train.device=cuda, but torch {torch.__version__} finds no CUDA device here. Use "
            f"train.device=cpu or train.device=auto."
        )
    use_cuda = has_cuda and config.device is not Device.cpu
    return torch.device("cuda" if use_cuda else "cpu")


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """bf16 for matrix products where `precision` asks for it; weights stay fp32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision is Precision.bf16)


def check_memory(config: RunConfig, where: torch.device, num_reviews: int) -> None:
    """Raise `UserError` where training takes more memory than there is. num_reviews: in train."""
    if config.is_network:
        on_gpu = torch.cuda.mem_get_info(where)[1] if where.type == "cuda" else None
        needed = size.training_bytes(config, num_reviews)
        memory.check(needed, "Training this model", available=on_gpu)


def peak_rss_bytes() -> int:
    """The most memory this process has held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _keep_freed_memory() -> None:
    """Ask glibc to keep the step's big buffers instead of mapping them anew every step.

    Some 6 % of the training time on CPU (benchmarks/LOG.md); other allocators ignore it.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        m_trim_threshold, m_mmap_max = -1, -4  # names and numbers of malloc.h
        mallopt(m_mmap_max, 0)
        mallopt(m_trim_threshold, 2**31 - 1)
