"""Runs as Kubernetes Jobs, one for each process, through the official client.

A Job has the name of its process, so creating it twice is refused by the API server, and a later service finds it again. It is
never tried again by Kubernetes (`backoffLimit` 0, `restartPolicy` Never): when and whether another one follows is the
supervisor's decision. A stop suspends the Job, which ends its pod in order and starts no other.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from replicator_runtime.secrets_of_service import ServiceRules
from replicator_runtime.service.supervision.launcher import Presence, Seen
from replicator_sdk.errors import ConfigError
from replicator_sdk.outgoing.networks import NETWORKS, Networks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kubernetes.client import ApiClient, V1Job, V1Pod

    from replicator_runtime.service.supervision.launcher import Order

OWNER, INSTANCE, REFUSED = "replicator/owner", "replicator/instance", "replicator/refused"
_FOLDER, _FILE, _CONTAINER = "/etc/replicator", "pipeline.json", "replicator"
_LOOK_SECONDS, _CACHED_SECONDS, _REQUEST_SECONDS = 5.0, 2.0, 10.0
_NOT_FOUND, _CONFLICT = 404, 409
_WRONG_SETTINGS = "RPL-1528"


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How Jobs are created.

    Attributes:
        namespace: Of Kubernetes.
        image: With `replicator` and its plugins.
        owner: Names this service, where several create Jobs in one namespace.
        pod: More of the pod's `spec`, such as `serviceAccountName` or `volumes`.
        container: More of its container, such as `resources`, `env` or `volumeMounts`.
    """

    namespace: str
    image: str
    owner: str = "replicator"
    pod: Mapping[str, Any] = field(default_factory=dict)
    container: Mapping[str, Any] = field(default_factory=dict)


def read_job_settings(path: Path) -> JobSettings:
    """The settings in a JSON file: `namespace` and `image`, and what else `JobSettings` has.

    Raises:
        ConfigError: RPL-1528 when they are not such settings.
    """
    try:
        found = JobSettings(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{path} does not say how Jobs are created: {type(error).__name__}",
            code=_WRONG_SETTINGS,
            hint='write {"namespace": "data", "image": "registry/replicator:1"} there; docs/service-on-kubernetes.md has the other keys',
        ) from error
    return found


class KubernetesLauncher:
    """Runs as Jobs of one namespace. Used from one thread.

    Args:
        settings: How Jobs are created.
        client: The API server's; by the usual configuration (in the cluster, or `~/.kube/config`) when None.
        shared_secrets: Whether they may use secrets that are given to no namespace.
        networks: What they may connect to.
    """

    def __init__(
        self,
        settings: JobSettings,
        client: ApiClient | None = None,
        *,
        shared_secrets: bool = False,
        networks: Networks | None = None,
    ) -> None:
        from kubernetes import client as api

        self._settings = settings
        self._shared_secrets = shared_secrets
        self._networks = networks or Networks()
        self._client = client or _configured()
        self._jobs = api.BatchV1Api(self._client)
        self._core = api.CoreV1Api(self._client)
        self._seen: dict[str, V1Job] = {}
        self._seen_at = float("-inf")

    @property
    def name(self) -> str:
        """`kubernetes`."""
        return "kubernetes"

    def place(self, instance_id: str) -> str:
        """Namespace and name of the Job."""
        return json.dumps({"namespace": self._settings.namespace, "job": f"replicator-{instance_id.lower()}"})

    def start(self, place: str, order: Order) -> None:
        """Create the Secret with the pipeline JSON, then the Job.

        Raises:
            OSError: When the API server refuses, or cannot be reached.
        """
        self._create_secret(place, order)
        self._create_job(place, self._job(place, order.words, order.stop_seconds, order.namespace))

    def look(self, place: str) -> Seen:
        """What Job and pod say."""
        job = self._find(place)
        if job is None:
            return Seen(Presence.NOT_BEGUN)
        if REFUSED in (job.metadata.labels or {}):
            return Seen(Presence.ENDED)
        status, pods = job.status, None
        if status and status.succeeded:
            return Seen(Presence.ENDED, 0, _ended_at(job))
        is_over = any(one.type == "Failed" and one.status == "True" for one in (status and status.conditions) or ())
        if is_over or job.spec.suspend:
            pods = self._pods(place)
            if all(pod.status.phase in {"Succeeded", "Failed"} for pod in pods):
                return Seen(Presence.ENDED, _exit_code(pods), _ended_at(job))
        return Seen(Presence.RUNNING)

    def refuse(self, place: str) -> Seen:
        """Take the name, with a Job that is suspended and never resumed."""
        found = self.look(place)
        if found.presence is not Presence.NOT_BEGUN:
            return found
        self._create_job(place, self._job(place, [], 0, "", refused=True))
        return self.look(place)

    def stop(self, place: str) -> None:
        """Suspend the Job: its pod gets SIGTERM, and is killed after its grace period."""
        with _tolerating(_NOT_FOUND):
            self._jobs.patch_namespaced_job(
                **self._named(place), body={"spec": {"suspend": True}}, _request_timeout=_REQUEST_SECONDS
            )
        self._seen_at = float("-inf")

    def kill(self, place: str) -> None:
        """Delete its pod without a grace period."""
        self._core.delete_collection_namespaced_pod(
            self._settings.namespace,
            label_selector=f"{INSTANCE}={_job_name(place)}",
            grace_period_seconds=0,
            _request_timeout=_REQUEST_SECONDS,
        )

    def descriptor(self, place: str) -> int | None:
        """None: the API server is asked again."""
        return None

    def look_again_seconds(self, place: str) -> float:
        """All Jobs are listed at once."""
        return _LOOK_SECONDS

    def release(self, place: str) -> None:
        """Nothing is kept of it here."""

    def output(self, place: str, most: int) -> bytes | None:
        """None: the pod has it."""
        return None

    def shorten(self, place: str) -> None:
        """Nothing is kept of it here."""

    def forget(self, place: str) -> None:
        """Delete the Job, its pod and its Secret."""
        named = self._named(place)
        with _tolerating(_NOT_FOUND):
            self._jobs.delete_namespaced_job(
                **named, propagation_policy="Background", _request_timeout=_REQUEST_SECONDS
            )
        with _tolerating(_NOT_FOUND):
            self._core.delete_namespaced_secret(**named, _request_timeout=_REQUEST_SECONDS)

    def sweep(self, known: set[str]) -> None:
        """Delete Jobs and Secrets of this owner whose processes are not known."""
        found = {*self._listed(), *(one.metadata.name for one in self._secrets())}
        for name in found - {f"replicator-{one.lower()}" for one in known}:
            self.forget(json.dumps({"namespace": self._settings.namespace, "job": name}))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _named(self, place: str) -> dict[str, str]:
        return {"name": _job_name(place), "namespace": self._settings.namespace}

    def _find(self, place: str) -> V1Job | None:
        """The Job: from a list of all, which is some seconds old at most; one that is not in it is asked for."""
        if time.monotonic() - self._seen_at > _CACHED_SECONDS:
            self._seen, self._seen_at = self._listed(), time.monotonic()
        found = self._seen.get(_job_name(place))
        if found is None:
            with _tolerating(_NOT_FOUND):
                found = self._jobs.read_namespaced_job(**self._named(place), _request_timeout=_REQUEST_SECONDS)
        return found

    def _listed(self) -> dict[str, V1Job]:
        listed = self._jobs.list_namespaced_job(
            self._settings.namespace, label_selector=self._mine(), _request_timeout=_REQUEST_SECONDS
        )
        return {job.metadata.name: job for job in listed.items}

    def _secrets(self) -> Sequence[Any]:
        listed = self._core.list_namespaced_secret(
            self._settings.namespace, label_selector=self._mine(), _request_timeout=_REQUEST_SECONDS
        )
        return list(listed.items)

    def _pods(self, place: str) -> list[V1Pod]:
        listed = self._core.list_namespaced_pod(
            self._settings.namespace,
            label_selector=f"{INSTANCE}={_job_name(place)}",
            _request_timeout=_REQUEST_SECONDS,
        )
        return list(listed.items)

    def _mine(self) -> str:
        return f"{OWNER}={self._settings.owner}"

    def _create_secret(self, place: str, order: Order) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": _job_name(place), "labels": {OWNER: self._settings.owner}},
            "stringData": {_FILE: order.config},
        }
        with _tolerating(_CONFLICT):
            self._core.create_namespaced_secret(
                self._settings.namespace, _model("V1Secret", body), _request_timeout=_REQUEST_SECONDS
            )

    def _create_job(self, place: str, body: dict[str, Any]) -> None:
        with _tolerating(_CONFLICT):
            self._jobs.create_namespaced_job(
                self._settings.namespace, _model("V1Job", body), _request_timeout=_REQUEST_SECONDS
            )
        self._seen_at = float("-inf")

    def _job(
        self, place: str, words: Sequence[str], stop_seconds: float, namespace: str, *, refused: bool = False
    ) -> dict[str, Any]:
        name = _job_name(place)
        labels = {OWNER: self._settings.owner, INSTANCE: name}
        said = ServiceRules(namespace, self._shared_secrets).environment() | {NETWORKS: self._networks.text()}
        rules = [{"name": key, "value": value} for key, value in said.items()]
        container = {
            **self._settings.container,
            "name": _CONTAINER,
            "image": self._settings.image,
            "command": ["replicator", *words, "--", f"{_FOLDER}/{_FILE}"],
            "env": [*self._settings.container.get("env", ()), *rules],  # of two with one name the last one counts
            "volumeMounts": [
                *self._settings.container.get("volumeMounts", ()),
                {"name": _CONTAINER, "mountPath": _FOLDER, "readOnly": True},
            ],
        }
        pod = {
            **self._settings.pod,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": max(1, round(stop_seconds)),
            "containers": [container],
            "volumes": [
                *self._settings.pod.get("volumes", ()),
                {"name": _CONTAINER, "secret": {"secretName": name, "defaultMode": 0o400}},
            ],
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels | ({REFUSED: "true"} if refused else {})},
            "spec": {
                "backoffLimit": 0,
                "completions": 1,
                "parallelism": 1,
                "suspend": refused,
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }


class _tolerating:  # noqa: N801 - used as a statement
    """Ignores one status of an answer; any other failure is an OSError, which is tried again."""

    def __init__(self, status: int) -> None:
        self._status = status

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        status = getattr(error, "status", None)
        if error is None or status == self._status:
            return True
        if status is not None:
            raise OSError(f"the API server answered {status}") from error
        return False


def _configured() -> ApiClient:
    from kubernetes import client, config

    config.load_config()
    return client.ApiClient()


def _model(name: str, body: dict[str, Any]) -> Any:
    from kubernetes import client

    return getattr(client, name).from_dict(body)


def _job_name(place: str) -> str:
    name: str = json.loads(place)["job"]
    return name


def _ended_at(job: V1Job) -> float | None:
    conditions = [one.last_transition_time for one in job.status.conditions or () if one.last_transition_time]
    ended = job.status.completion_time or max(conditions, default=None)
    return None if ended is None else float(ended.timestamp())


def _exit_code(pods: Sequence[V1Pod]) -> int | None:
    """Of the container that ended last; None when no pod is left to say it."""
    for pod in pods:
        for container in pod.status.container_statuses or ():
            ended = container.state.terminated if container.state else None
            if ended is not None:
                code: int = ended.exit_code
                return code
    return None
