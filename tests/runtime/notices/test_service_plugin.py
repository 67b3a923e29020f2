"""The plugin of a service is Apprise's own, and no other is imported for it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import apprise
import pytest
from apprise.plugins import N_MGR

from replicator_runtime.config.sections.destinations import SCHEMES
from replicator_runtime.notices.service_plugin import MODULES, plugin_class, plugin_of

_FINDS: Any = N_MGR
_APPRISE: Any = apprise.Apprise
_URLS = (
    "json://user:pass@localhost:8080/a/path?+X-Token=b",
    "jsons://localhost/#channel",
    "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general",
    "mailto://user:pass@example.com?to=a@example.com",
    "mmosts://mattermost.example.com/3ccdd113474722377935511fc85d3dd4",
    "pagerduty://integrationkey0123456789012345678901@apikey",
    "tgram://123456789:abcdefg_hijklmnop/12315544",
    "workflows://WorkflowID@Signature/",
    "slack://missing",
    "json://",
)


@pytest.mark.parametrize("scheme", sorted(SCHEMES & set(_FINDS.schemas())))
def test_each_service_that_may_be_notified_has_the_class_that_apprise_finds(scheme: str) -> None:
    assert plugin_class(scheme) is _FINDS[scheme]
    assert scheme in MODULES


@pytest.mark.parametrize("url", _URLS)
def test_a_url_is_taken_as_apprise_takes_it(url: str) -> None:
    asset = apprise.AppriseAsset(app_id="replicator")
    ours, theirs = plugin_of(url, asset), _APPRISE.instantiate(url, asset=asset)
    assert type(ours) is type(theirs)
    assert ours is None or ours.url() == theirs.url()


def test_what_sends_to_one_service_imports_no_other() -> None:
    code = (
        "import sys, apprise\n"
        "from replicator_runtime.notices.service_plugin import plugin_of\n"
        "assert plugin_of('json://localhost', apprise.AppriseAsset())\n"
        "print(len([name for name in sys.modules if name.startswith('apprise.plugins.')]))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 5
