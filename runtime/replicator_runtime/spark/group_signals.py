"""Starts Spark's Java virtual machine so that a SIGTERM to the whole process group lets this process end in order.

systemd, `timeout` and shells signal every process of a group. A virtual machine that obeys is gone before the run has
applied what it gathered, and each call to it fails. It ends with this process, whose pipe it reads, in any case.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from replicator_runtime.spark.console import forwarded_standard_error


def is_submitted() -> bool:
    """Whether `spark-submit` (or the like) has started the virtual machine already, and this process as well."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def start_gateway(settings: Mapping[str, str]) -> None:
    """Start the virtual machine with `settings`, unless this process has one, and have it ignore SIGTERM.

    pyspark has it ignore SIGINT already. Between its start and the first answer, about a second, SIGTERM still ends it:
    then Spark does not start. Raises what pyspark raises.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:  # noqa: SLF001  # pyspark has no public way
        return
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(settings.items()))
    if is_submitted():
        SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001
        return
    with forwarded_standard_error() as standard_error:
        gateway = launch_gateway(conf, {"stderr": standard_error})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)  # noqa: SLF001
    with contextlib.suppress(Exception):  # a virtual machine without this class obeys the signal, as it did before
        _ignore_sigterm(gateway.jvm)


def _ignore_sigterm(jvm: Any) -> None:
    misc = jvm.sun.misc
    misc.Signal.handle(misc.Signal("TERM"), misc.SignalHandler.SIG_IGN)
