"""Reading for comparisons, and repairs, on the real service: only the fixture `project` differs. For mode `batch`."""

from __future__ import annotations

from tests.services.bigquery.real_service import Service

if Service.of_environment().mode == "batch":
    from tests.plugins.targets.bigquery.batch.test_repair import (  # noqa: F401 - the very same claims
        test_rows_of_the_keys_are_as_given_and_the_position_stays,
    )
    from tests.plugins.targets.bigquery.reading.test_table_reader import (  # noqa: F401 - likewise
        test_a_moment_stays_as_it_is_and_rows_say_whether_they_were_written_again,
        test_a_table_that_is_written_while_it_is_opened_is_opened_again,
        test_it_reads_beside_a_newer_run_and_claims_no_table,
        test_rows_of_all_types_have_the_hashes_of_the_source,
    )
