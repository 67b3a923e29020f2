"""Only services are notified that may be, and what goes wrong names no secret."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from replicator_runtime.config.sections.destinations import Destination, destinations
from replicator_runtime.config.sections.notifications import NotificationConfig
from replicator_runtime.notices import delivery as module
from replicator_runtime.notices.delivery import send
from replicator_runtime.notices.messages import Message
from replicator_runtime.notices.sender import Sender
from replicator_runtime.observability import redaction
from tests.runtime.notices.webhook import Webhook, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE = Message("replicator shop: a test", "Body <b>\nof two lines", "failure")
TOKEN = "T0k3n-of-a-hook-42"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    redaction.redactor().forget()


def _one(url: str, **more: Any) -> Destination:
    [found], problems = destinations([NotificationConfig(url=SecretStr(url), **more)])
    assert not problems
    return found


def test_a_message_arrives_as_it_is_and_a_refused_one_says_the_status() -> None:
    with serving(Webhook()) as webhook:
        assert send(_one(webhook.url(TOKEN)), MESSAGE) == ""
        [got] = webhook.messages
        assert (got["title"], got["message"], got["type"]) == (MESSAGE.title, MESSAGE.body, "failure")
        webhook.status = 500
        assert send(_one(webhook.url(TOKEN)), MESSAGE) == "the service answered with status 500"
    why = send(_one(webhook.url(TOKEN)), MESSAGE)
    assert why == "the service did not answer, or did not take it"


def test_an_answer_does_not_lead_to_another_host_whatever_the_url_says() -> None:
    with serving(Webhook()) as webhook, serving(Webhook()) as other:
        webhook.status, webhook.location = 307, f"http://127.0.0.1:{other.port}/"
        assert send(_one(webhook.url() + "?redirect=yes"), MESSAGE)
        assert (webhook.refused, other.messages) == (1, [])


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "metadata.google.internal",
        "instance-data.ec2.internal.",
        "[fd00:ec2::254]",
        "[::ffff:169.254.1.1]",
        "0.0.0.0",
    ],
)
def test_a_metadata_service_is_not_reached(host: str) -> None:
    assert "may not be reached" in send(_one(f"json://{host}/latest"), MESSAGE)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "syslog://", "dbus://", "apprise://host/x", "exec://x", "JSONX://host"]
)
def test_other_schemes_are_refused_before_a_run(url: str) -> None:
    _, [problem] = destinations([NotificationConfig(url=SecretStr(url))])
    assert (problem.code, problem.path) == ("RPL-1006", "notifications[0].url")


def test_a_url_is_a_secret_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLICATOR_SECRET_HOOK", TOKEN)
    config = NotificationConfig(url=SecretStr("slack://${secure(hook)}/B12345678/C12345678"))
    found = _one("slack://${secure(hook)}/B12345678/C12345678")
    assert found.url == f"slack://{TOKEN}/B12345678/C12345678"
    for shown in (repr(found), repr(config), str(config.model_dump()), config.model_dump_json()):
        assert TOKEN not in shown
        assert "B12345678" not in shown
    text = f"Max retries exceeded with url: /services/{TOKEN}/B12345678 of {found.url}"
    assert redaction.redact(text).count("***") >= 2
    assert TOKEN not in redaction.redact(text)
    assert "B12345678" not in redaction.redact(text)


def test_a_macro_without_a_value_is_a_problem_of_its_place() -> None:
    found, [problem] = destinations([NotificationConfig(url=SecretStr("${secure(absent_hook)}"))])
    assert (found, problem.path, problem.code) == ((), "notifications[0].url", "RPL-1004")


def test_what_is_too_long_for_a_service_is_cut_and_not_refused_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Discord answers 400 to more than 2,000 characters: ten failing tables were never reported."""
    from apprise.plugins.custom_json import NotifyJSON

    monkeypatch.setattr(NotifyJSON, "body_maxlen", 200)
    with serving(Webhook()) as webhook:
        assert send(_one(webhook.url()), Message("replicator shop: a test", "many words " * 100, "failure")) == ""
        assert send(_one(webhook.url() + "?overflow=split"), Message("t", "many words " * 30, "failure")) == ""
    assert 100 < len(webhook.messages[0]["message"]) <= 200
    assert len(webhook.messages) == 3, "cut in two where the URL asks for it"


def _arrives(one: Sender, at: float) -> None:
    one.send(MESSAGE, (), (), at)
    until = time.monotonic() + 60
    while one.result(at) is None:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_of_three_messages_the_third_arrives_fifteen_seconds_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """So what begins right after something was over is reported as soon as what begins at another time."""
    monkeypatch.setattr(module, "send", lambda *_: "")
    one = Sender(_one("json://127.0.0.1/x"))
    _arrives(one, 1000.0)
    assert one.may_send(1000.1)
    _arrives(one, 1004.0)
    assert not one.may_send(1014.0)
    assert one.may_send(1015.0)
    _arrives(one, 1015.0)
    assert not one.may_send(1018.0)
    assert one.may_send(1019.0)
    one.close()


def test_a_clock_that_is_turned_back_holds_no_message_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "send", lambda *_: "")
    one, ahead = Sender(_one("json://127.0.0.1/x")), 1_000_000.0
    for at in (ahead, ahead + 1):
        _arrives(one, at)
    assert not one.may_send(ahead + 1), "messages are not sent one after the other"
    assert one.may_send(10.0)
    _arrives(one, 10.0)
    assert one.may_send(10.1), "it arrived long before the last one, as the clock has it"
    one.close()
