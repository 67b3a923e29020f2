"""A registered secret comes out of no text in any spelling; what looks like a secret is masked too."""

from __future__ import annotations

import base64
import html
import json
import logging
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from replicator_runtime.observability import redaction
from replicator_runtime.observability.redaction import MASK, RedactingFilter, Redactor, is_sensitive_key
from replicator_sdk.errors import NeedsUserError

SECRETS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="*"), min_size=4, max_size=30)
AROUND = st.text(st.characters(exclude_categories=["Cs"]), max_size=15)


@pytest.fixture
def redactor() -> Redactor:
    return Redactor()


@given(SECRETS, AROUND, AROUND)
def test_no_spelling_of_a_secret_is_left_in_a_text(secret: str, before: str, after: str) -> None:
    assume(len(secret.strip()) >= 4)
    assume(not set(secret) <= set(MASK))
    redactor = Redactor()
    assert redactor.register(secret)
    spellings = [
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote(secret, safe="").replace("%2F", "%2f").replace("%3D", "%3d"),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
        html.escape(secret),
        secret.replace("'", "''"),
        base64.b64encode(secret.encode()).decode(),
    ]
    for spelling in spellings:
        cleaned = redactor.text(before + spelling + after)
        assert redactor.contains_secret(before + spelling + after)
        assert not redactor.contains_secret(cleaned)


@given(
    st.binary(max_size=8),
    st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=8),
    st.binary(max_size=8),
)
def test_a_secret_inside_base64_of_something_longer_cannot_be_decoded_any_more(
    before: bytes, secret: str, after: bytes
) -> None:
    redactor = Redactor()
    redactor.register(secret)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = redactor.text(f"Authorization header {encode(before + secret.encode() + after).decode()} end")
        rest = text.removeprefix("Authorization header ").removesuffix(" end").replace(MASK, "").rstrip("=")
        whole = rest[: len(rest) // 4 * 4]
        found = base64.b64decode(whole.replace("-", "+").replace("_", "/"))
        assert secret.encode() not in found
        assert MASK in text


def test_every_line_of_a_key_file_is_a_secret(redactor: Redactor) -> None:
    redactor.register(
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----\n"
    )
    assert "MIIEvQIBADANBgkqhkiG9w0" not in redactor.text("could not parse line MIIEvQIBADANBgkqhkiG9w0")


def test_too_short_a_secret_is_refused_instead_of_masking_half_of_every_text(redactor: Redactor) -> None:
    assert redactor.register("abc") is False
    assert redactor.register("  ab  ") is False
    assert redactor.text("abc abcd") == "abc abcd"
    assert redactor.register("abcd") is True
    assert redactor.text("abc abcd") == "abc ***"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://user:hunter2@host:5432/db",
        "postgresql://user:hun/ter2@x hunter2".replace("hun/ter2", "hunter2").removesuffix(" hunter2"),
        "mysql+pymysql://u:p@ss:hunter2@host/db",
        "host=db password=hunter2 user=u",
        "host=db password='hunter2 and \\' more hunter2' user=u",
        "https://x/y?user=u&token=hunter2&z=1",
        "AccountKey=hunter2;EndpointSuffix=x",
        "{'user': 'u', 'password': 'hunter2'}",
        '{"fs.s3a.secret.key": "hunter2", "a": 1}',
        '{"apiKey" : "hunter2"}',
        "Authorization: Bearer hunter2hunter2.hunter2",
        "PGPASSWORD=hunter2 psql",
        "client_secret = hunter2",
    ],
)
def test_passwords_in_connection_strings_and_settings_are_masked_unregistered(redactor: Redactor, text: str) -> None:
    cleaned = redactor.text(text)
    assert "hunter2" not in cleaned
    assert MASK in cleaned


@pytest.mark.parametrize(
    "text",
    [
        "password authentication failed for user postgres",
        "the secret 'pg' is missing; looked at the environment",
        "postgresql://host:5432/db",
        "table public.tokens, 12 rows",
        "the key (id)=(7) already exists",
        "https://example.org/a:b",
    ],
)
def test_ordinary_messages_stay_readable(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text


def test_values_are_masked_by_their_key_at_any_depth(redactor: Redactor) -> None:
    redactor.register("s3cr3t")
    cleaned = redactor.value(
        {"password": 5, "list": [{"api_key": ["x"]}, "a s3cr3t"], "s3cr3t": 1, "rows": 3, "ok": True, "none": None}
    )
    assert cleaned == {
        "password": MASK,
        "list": [{"api_key": MASK}, "a ***"],
        MASK: 1,
        "rows": 3,
        "ok": True,
        "none": None,
    }


def test_objects_are_shown_as_clean_text_and_never_fail(redactor: Redactor) -> None:
    class Bad:
        def __str__(self) -> str:
            raise RuntimeError("no")

    deep: list[object] = []
    deep.append(deep)
    redactor.register("s3cr3t")
    assert redactor.value({"a": Bad()}) == {"a": "<Bad: RuntimeError>"}
    assert "s3cr3t" not in str(redactor.value(ValueError("has s3cr3t")))
    assert "..." in str(redactor.value(deep))


@pytest.mark.parametrize(
    "key", ["password", "sslPassword", "API-KEY", "secret", "access_token", "privateKey", "Authorization"]
)
def test_these_keys_are_sensitive(key: str) -> None:
    assert is_sensitive_key(key)


@pytest.mark.parametrize("key", ["secret_name", "user", "keys", "primaryKey", "key", "passing", "tokenCount"])
def test_these_keys_are_not(key: str) -> None:
    assert not is_sensitive_key(key)


def test_errors_with_all_their_causes_are_cleaned() -> None:
    redaction.register_secret("s3cr3t")
    try:
        try:
            raise ValueError("inner s3cr3t")
        except ValueError as error:
            raise NeedsUserError("outer s3cr3t", code="RPL-1") from error
    except NeedsUserError as error:
        for text in (redaction.redact_error(error), redaction.redact_error(error, with_traceback=True)):
            assert "s3cr3t" not in text
            assert "RPL-1" in text


def test_the_filter_cleans_records_of_any_library(caplog: pytest.LogCaptureFixture) -> None:
    redaction.register_secret("s3cr3t")
    log = logging.getLogger("some.library")
    cleaning = RedactingFilter(redaction.redactor())
    caplog.handler.addFilter(cleaning)
    try:
        log.warning("url %s and %d", "x://u:s3cr3t@h", 3)
        log.warning("broken %d", "s3cr3t")
        try:
            raise ValueError("s3cr3t")
        except ValueError:
            log.exception("failed", stack_info=True)
    finally:
        caplog.handler.removeFilter(cleaning)
    assert "s3cr3t" not in caplog.text
    assert "and 3" in caplog.text
    assert "ValueError: ***" in caplog.text
