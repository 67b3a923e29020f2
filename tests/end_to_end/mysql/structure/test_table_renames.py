"""Tables that are renamed are renamed at the target too, while every table of the database is captured."""

from __future__ import annotations

from tests.crash.file_target import file_target_rows
from tests.end_to_end.mysql.database.pipeline import MysqlPipeline
from tests.end_to_end.mysql.structure.test_table_changes import capturing_everything


def test_renamed_and_exchanged_tables_are_not_copied(each_pipeline: MysqlPipeline) -> None:
    pipeline = capturing_everything(each_pipeline)
    pipeline.assert_nothing_lost()
    pipeline.execute(
        "RENAME TABLE note TO remark",
        "INSERT INTO remark VALUES ('renamed')",
        "CREATE TABLE other (id int PRIMARY KEY, name varchar(40))",
        "INSERT INTO other VALUES (1, 'other')",
    )
    renamed = MysqlPipeline(pipeline.database, pipeline.replicator, ("item", "other", "remark"))
    renamed.assert_nothing_lost()
    assert not file_target_rows(pipeline.replicator.folder / "target", "note")
    renamed.execute(
        "RENAME TABLE item TO spare, other TO item, spare TO other",
        "INSERT INTO item VALUES (2, 'swapped')",
        "DELETE FROM other WHERE id = 3",
    )
    ended = renamed.replicator.until_current()
    assert renamed.replicator.copied(ended) == [], ended.messages
    for number in range(3):
        renamed.assert_nothing_lost()
        renamed.execute(
            f"INSERT INTO item VALUES ({90 + number}, 'more')",
            f"ALTER TABLE other ADD COLUMN more_{number} int DEFAULT 4",
            f"DELETE FROM other WHERE id = {5 + number}",
        )
    renamed.assert_nothing_lost()


def test_a_ghost_that_is_captured_takes_the_name_of_its_original_without_another_copy(
    each_pipeline: MysqlPipeline,
) -> None:
    """The cut-over of gh-ost: readers of the target see the rows of before, or those of after."""
    pipeline = capturing_everything(each_pipeline)
    pipeline.execute(
        "CREATE TABLE _item_gho LIKE item",
        "ALTER TABLE _item_gho ADD COLUMN more int DEFAULT 3",
        "INSERT INTO _item_gho SELECT item.*, 3 FROM item",
    )
    MysqlPipeline(pipeline.database, pipeline.replicator, ("item", "note", "_item_gho")).assert_nothing_lost()
    pipeline.execute("RENAME TABLE item TO _item_del, _item_gho TO item", "DELETE FROM item WHERE id = 2")
    renamed = MysqlPipeline(pipeline.database, pipeline.replicator, ("item", "note", "_item_del"))
    ended = renamed.replicator.until_current()
    assert renamed.replicator.copied(ended) == [], ended.messages
    renamed.assert_nothing_lost()
    pipeline.execute("DROP TABLE _item_del", "DELETE FROM item WHERE id = 3")
    for number in range(3):
        pipeline.assert_nothing_lost()
        pipeline.execute(
            f"ALTER TABLE item ADD COLUMN n{number} int DEFAULT 4", f"DELETE FROM item WHERE id = {4 + number}"
        )
    pipeline.assert_nothing_lost()
