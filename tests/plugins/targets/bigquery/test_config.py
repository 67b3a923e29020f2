"""Settings: fixed names, modes that are not there yet refused, secrets never shown."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from replicator_sdk.errors import ConfigError
from replicator_target_bigquery import BigQueryTarget
from replicator_target_bigquery.api.clients import Clients
from replicator_target_bigquery.config import BigQueryConfig

NEEDED: dict[str, object] = {"project": "p", "stagingBucket": "b"}


def config(**settings: object) -> BigQueryConfig:
    return BigQueryConfig.model_validate({**NEEDED, **settings})


def test_settings_have_the_names_in_the_issue() -> None:
    given = {
        "datasetProject": "q",
        "datasetName": "d",
        "serviceAccountKey": "{}",
        "stagingBucketLocation": "eu",
        "loadInterval": 30,
        "stagingTablePrefix": "_s_",
        "requireManualDrops": True,
        "softDeletes": True,
        "encryptionKeyName": "k",
        "mode": "batch",
        "apiEndpoint": "a",
        "storageEndpoint": "s",
        "storageWriteEndpoint": "w",
    }
    made = config(**given)
    assert made.datasets_in == "q"
    assert made.load_interval == 30


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "cdc", "softDeletes": True},
        {"mode": "cdc", "requirePartitionFilter": True},
        {"mode": "batch", "maxStaleness": 60},
    ],
    ids=str,
)
def test_what_a_mode_cannot_do_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="mode cdc"):
        config(**settings)


def test_a_label_that_google_refuses_is_refused_here() -> None:
    with pytest.raises(ValidationError):
        config(labels={"Team": "x"})


def test_a_key_is_never_shown() -> None:
    made = config(serviceAccountKey='{"private_key": "hush"}')
    assert "hush" not in repr(made)
    with pytest.raises(ConfigError) as err:
        Clients(made)
    assert "hush" not in str(err.value)
    assert err.value.code == "RPL-6519"


def test_the_plugin_names_itself() -> None:
    assert BigQueryTarget.name == "bigquery"
    assert BigQueryTarget(config()).create_table_assessor() is not None
