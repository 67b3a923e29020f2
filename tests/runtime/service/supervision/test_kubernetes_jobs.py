"""The launcher of Kubernetes Jobs makes requests of the API's contract; see `api_server.py` for what that is worth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator_runtime.service.supervision.kubernetes_jobs import JobSettings, KubernetesLauncher, read_job_settings
from replicator_runtime.service.supervision.launcher import Order, Presence
from replicator_sdk.errors import ConfigError
from tests.runtime.service.supervision.api_server import ApiServer, api_server

JOB = "replicator-01abc"
ORDER = Order("default", "shop", "01ABC", ["run", "--json"], '{"name": "shop"}', Path("unused"), 60.0)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """A server that checks requests."""
    with api_server() as server:
        yield server


@pytest.fixture
def launcher(server: ApiServer) -> Iterator[KubernetesLauncher]:
    """A launcher of its Jobs."""
    pod = {"serviceAccountName": "replicator", "volumes": [{"name": "state", "emptyDir": {}}]}
    container = {
        "resources": {"requests": {"memory": "2Gi"}},
        "volumeMounts": [{"name": "state", "mountPath": "/state"}],
    }
    made = KubernetesLauncher(JobSettings("data", "replicator:1", pod=pod, container=container), server.client)
    yield made
    made.close()


def test_a_run_is_one_job_that_kubernetes_never_tries_again(server: ApiServer, launcher: KubernetesLauncher) -> None:
    place = launcher.place("01ABC")
    assert launcher.look(place).presence is Presence.NOT_BEGUN
    launcher.start(place, ORDER)
    launcher.start(place, ORDER)
    assert list(server.objects["jobs"]) == [JOB]
    spec = server.objects["jobs"][JOB]["spec"]
    pod = spec["template"]["spec"]
    assert (spec["backoffLimit"], pod["restartPolicy"], pod["terminationGracePeriodSeconds"]) == (0, "Never", 60)
    assert pod["serviceAccountName"] == "replicator"
    (container,) = pod["containers"]
    assert container["command"] == ["replicator", "run", "--json", "--", "/etc/replicator/pipeline.json"]
    assert [one["mountPath"] for one in container["volumeMounts"]] == ["/state", "/etc/replicator"]
    assert {one["name"]: one["value"] for one in container["env"]} == {
        "REPLICATOR_SERVICE_NAMESPACE": "default",
        "REPLICATOR_SERVICE_SHARED_SECRETS": "",
        "REPLICATOR_SERVICE_NETWORKS": '{"allowed": null, "loopback": true}',
    }
    assert server.objects["secrets"][JOB]["stringData"] == {"pipeline.json": ORDER.config}
    assert launcher.look(place).presence is Presence.RUNNING


@pytest.mark.parametrize("code", [0, 7, 137])
def test_the_exit_code_is_that_of_the_pod_also_for_a_later_service(
    code: int, server: ApiServer, launcher: KubernetesLauncher
) -> None:
    launcher.start(launcher.place("01ABC"), ORDER)
    server.end_pod(JOB, code)
    later = KubernetesLauncher(JobSettings("data", "replicator:1"), server.client)
    found = later.refuse(later.place("01ABC"))
    assert (found.presence, found.exit_code) == (Presence.ENDED, code)
    assert found.at == 1767225600.0
    later.close()


def test_a_job_that_was_refused_is_never_created(server: ApiServer, launcher: KubernetesLauncher) -> None:
    place = launcher.place("01ABC")
    assert launcher.refuse(place).presence is Presence.ENDED
    launcher.start(place, ORDER)
    assert server.objects["jobs"][JOB]["spec"]["suspend"]
    assert launcher.look(place).presence is Presence.ENDED


def test_a_stop_suspends_the_job_which_has_ended_once_no_pod_runs(
    server: ApiServer, launcher: KubernetesLauncher
) -> None:
    place = launcher.place("01ABC")
    launcher.start(place, ORDER)
    server.end_pod(JOB, 0)
    server.objects["jobs"][JOB]["status"] = {"active": 1}
    server.objects["pods"][f"{JOB}-x"]["status"]["phase"] = "Running"
    launcher.stop(place)
    assert server.objects["jobs"][JOB]["spec"]["suspend"]
    assert launcher.look(place).presence is Presence.RUNNING
    launcher.kill(place)
    assert launcher.look(place).presence is Presence.ENDED
    launcher.stop(launcher.place("02NONE"))


def test_what_the_database_does_not_know_is_deleted_with_its_secret(
    server: ApiServer, launcher: KubernetesLauncher
) -> None:
    for name in ("01ABC", "02DEF"):
        launcher.start(launcher.place(name), ORDER)
    launcher.sweep({"02DEF"})
    assert list(server.objects["jobs"]) == list(server.objects["secrets"]) == ["replicator-02def"]


def test_many_runs_are_looked_at_by_one_request(server: ApiServer, launcher: KubernetesLauncher) -> None:
    places = [launcher.place(f"{number:02}") for number in range(20)]
    for place in places:
        launcher.start(place, ORDER)
    before = len(server.requests)
    assert {launcher.look(place).presence for place in places} == {Presence.RUNNING}
    assert len(server.requests) == before + 1


def test_settings_of_jobs_are_read_from_a_file_and_what_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    file.write_text('{"namespace": "data", "image": "replicator:1", "pod": {"serviceAccountName": "replicator"}}')
    assert read_job_settings(file).pod == {"serviceAccountName": "replicator"}
    for wrong in ("[]", '{"namespace": "data"}', '{"namespace": "data", "image": "i", "images": []}'):
        file.write_text(wrong)
        with pytest.raises(ConfigError) as caught:
            read_job_settings(file)
        assert caught.value.code == "RPL-1528"
