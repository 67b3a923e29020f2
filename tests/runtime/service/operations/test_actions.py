"""What is asked of a pipeline is carried out by its run, or by a process of the service; who asked is kept."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.service.access.roles import Role
from replicator_runtime.service.operations import carrier
from replicator_runtime.service.operations.carrier import Carrier
from replicator_state import ReplicatorDirectory
from tests.runtime.service.operations.ran import DOTTED, IMAGE, PIPELINE, Ran, add_pipeline, awaited
from tests.runtime.service.services import Service


def asked(service: Service, action: str, **body: Any) -> str:
    answer = service.client.post(f"{PIPELINE}/{action}", json=body or None)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["requestId"])


def ended(service: Service, request_id: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = service.client.get(f"{PIPELINE}/requests/{request_id}").json()
        return found if found["state"] != "waiting" else None

    return awaited(look, "the request's outcome")


def directory_of(service: Service) -> ReplicatorDirectory:
    return ReplicatorDirectory(service.context.settings.base_path, "default", "shop")


def test_without_a_run_a_process_carries_it_out_and_tables_of_any_name_are_meant(shop: Service) -> None:
    rows = shop.client.get(f"{PIPELINE}/tables").json()
    ids = {row["table"]: row["id"] for row in rows}
    found = ended(shop, asked(shop, "tables/pause", tables=[ids[IMAGE], ids[DOTTED]]))
    assert (found["state"], found["by"], found["tables"]) == ("done", "local", [ids[IMAGE], ids[DOTTED]])
    assert found["endedBy"].startswith("run ")
    assert shop.client.get(f"{PIPELINE}/requests").json()[0]["request"] == found["request"]
    refused = ended(shop, asked(shop, "tables/resync", tables=["nothing"], inPlace=True))
    assert (refused["state"], refused["code"]) == ("refused", "RPL-1220")


def test_a_whole_pipeline_is_paused_and_resumed(shop: Service) -> None:
    assert ended(shop, asked(shop, "pause"))["state"] == "done"
    assert shop.client.get(f"{PIPELINE}/status").json()["paused"]["by"] == "local"
    assert ended(shop, asked(shop, "resume"))["state"] == "done"
    assert shop.client.get(f"{PIPELINE}/status").json()["paused"] is None


def test_what_a_run_has_not_begun_can_be_withdrawn_and_what_is_done_cannot(shop: Service) -> None:
    lease = directory_of(shop).acquire("a run")
    try:
        request_id = asked(shop, "tables/retry", tables=["orders"])
        place = f"{PIPELINE}/requests/{request_id}"
        assert shop.client.delete(place).status_code == 204
        assert shop.client.get(place).json()["state"] == "withdrawn"
        assert shop.client.delete(place).status_code == 204
        directory_of(shop).requests().record("table.retry", {}, "done")
        done = shop.client.get(f"{PIPELINE}/requests").json()[0]["request"]
        refused = shop.client.delete(f"{PIPELINE}/requests/{done}")
        assert (refused.status_code, refused.json()["code"]) == (409, "RPL-1563")
    finally:
        lease.release()


def test_what_waits_while_a_run_goes_on_is_carried_out_once_it_has_ended(shop: Service) -> None:
    lease = directory_of(shop).acquire("a run")
    request_id = asked(shop, "tables/pause", tables=["orders"])
    lease.release()
    assert ended(shop, request_id)["state"] == "done"


def test_unknown_things_are_not_found_and_a_pipeline_that_never_ran_is_asked_for_nothing(
    shop: Service, ran: Ran
) -> None:
    add_pipeline(shop, ran.config, "new")
    never = shop.client.post("/v1/contexts/default/pipelines/new/pause")
    assert (never.status_code, never.json()["code"]) == (409, "RPL-1201")
    assert shop.client.post("/v1/contexts/default/pipelines/gone/pause").json()["code"] == "RPL-1520"
    for request_id in ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "..%2f..", "x"):
        assert shop.client.get(f"{PIPELINE}/requests/{request_id}").status_code in {404, 422}
    assert shop.client.post(f"{PIPELINE}/tables/explode", json={"tables": ["orders"]}).status_code == 422
    assert shop.client.post(f"{PIPELINE}/tables/pause", json={"tables": []}).status_code == 422


def test_only_an_admin_drops_tables(service_with_tokens: Service) -> None:
    operator = service_with_tokens.client_of(Role.OPERATOR)
    refused = operator.post(f"{PIPELINE}/tables/drop", json={"tables": ["orders"]})
    assert (refused.status_code, refused.json()["code"]) == (403, "RPL-1541")


def test_a_start_ends_the_process_that_carries_out_since_it_may_hang_and_two_of_one_namespace_hold_up_no_other(
    shop: Service, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging: list[subprocess.Popen[bytes]] = []
    spawned = []

    def spawn(self: Carrier, key: tuple[str, str]) -> subprocess.Popen[bytes]:
        spawned.append(key)
        if key[0] != "default":
            return whole(self, key)
        hanging.append(subprocess.Popen(["sleep", "600"], stdout=subprocess.PIPE, start_new_session=True))
        return hanging[-1]

    whole = Carrier._spawn
    monkeypatch.setattr(Carrier, "_spawn", spawn)
    state = shop.context.settings.base_path
    folder = Path(state) / "default"
    for namespace, name in (("default", "two"), ("default", "three"), ("other", "shop")):
        shutil.copytree(folder / "shop", Path(state) / namespace / name)
        add_pipeline(shop, {**ran.config, "name": name, "offsetBasePath": state}, name, namespace)
    for name in ("shop", "two", "three"):
        directory = ReplicatorDirectory(state, "default", name)
        assert directory.generations()
        assert shop.client.post(f"/v1/contexts/default/pipelines/{name}/pause").status_code == 202
    awaited(lambda: len(spawned) == 2, "two processes")
    assert shop.client.post("/v1/contexts/other/pipelines/shop/pause").status_code == 202
    awaited(lambda: ("other", "shop") in spawned, "the other namespace's process")
    assert len(hanging) == 2
    monkeypatch.setattr(carrier, "_LONGEST_SECONDS", 600.0)
    shop.context.carrier.end(*spawned[0])
    awaited(lambda: hanging[0].poll() == -15, "its end")
    awaited(lambda: len(hanging) == 3, "the third one")
    for process in hanging:
        process.kill()
