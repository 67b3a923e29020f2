"""Refuses what a later release stored in a form that this one does not know: a replicator that was downgraded changes nothing."""

from __future__ import annotations

from replicator_sdk.errors import NeedsUserError


def release() -> str:
    """The release of this program, which is stored beside each form."""
    from replicator_sdk import __version__

    return __version__


def check_form(what: str, form: int, known: int, stored_by: str = "") -> None:
    """Checks that a stored document can be read. A release stores a higher form when an earlier one would misread it.

    Args:
        what: The document, for the error: "the state value engine-tables".
        form: Its form.
        known: The highest form that this release knows.
        stored_by: The release that stored it; empty when unknown.

    Raises:
        NeedsUserError: RPL-7161 when the form is higher.
    """
    if form <= known:
        return
    name = stored_by or "of a later release"
    raise NeedsUserError(
        f"{what} has form {form}, and this replicator {release()} knows forms up to {known}: replicator {name} stored it",
        code="RPL-7161",
        hint=f"pip install 'replicator=={stored_by}' and 'replicator-sdk=={stored_by}', or a later release, on every machine"
        if stored_by
        else "install the release of replicator that ran last, or a later one, on every machine",
    )
