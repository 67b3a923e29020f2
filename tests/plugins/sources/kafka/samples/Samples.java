import io.debezium.config.CommonConnectorConfig.EventConvertingFailureHandlingMode;
import io.debezium.config.Configuration;
import io.debezium.connector.SnapshotType;
import io.debezium.connector.oracle.CommitScn;
import io.debezium.connector.oracle.OracleConnection;
import io.debezium.connector.oracle.OracleConnectorConfig;
import io.debezium.connector.oracle.OracleOffsetContext;
import io.debezium.connector.oracle.OracleValueConverters;
import io.debezium.connector.oracle.Scn;
import io.debezium.connector.sqlserver.Lsn;
import io.debezium.connector.sqlserver.SqlServerConnectorConfig;
import io.debezium.connector.sqlserver.SqlServerOffsetContext;
import io.debezium.connector.sqlserver.SqlServerValueConverters;
import io.debezium.connector.sqlserver.TxLogPosition;
import io.debezium.pipeline.CommonOffsetContext;
import io.debezium.relational.Column;
import io.debezium.relational.CustomConverterRegistry;
import io.debezium.relational.RelationalDatabaseConnectorConfig;
import io.debezium.relational.Table;
import io.debezium.relational.TableId;
import io.debezium.relational.TableSchema;
import io.debezium.relational.TableSchemaBuilder;
import io.debezium.relational.ValueConverterProvider;
import io.debezium.relational.mapping.ColumnMappers;
import io.debezium.schema.FieldNameSelector;
import io.debezium.schema.SchemaNameAdjuster;
import io.debezium.schema.SchemaTopicNamingStrategy;
import java.io.PrintWriter;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Types;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Writes what Debezium's Oracle and SQL Server connectors would write, without their databases: schemas, conversions, source
 * blocks and envelopes come from the connectors' own classes; column definitions and column values are put in by hand.
 * One line a record: topic, TAB, key, TAB, value.
 */
public final class Samples {
    private static final Instant COMMITTED = Instant.parse("2024-02-29T12:34:56.789Z");
    private final List<Column> columns = new ArrayList<>();
    private final List<Object[]> values = new ArrayList<>();

    /** One column with its value in the row, and its value in the changed row. */
    private Samples with(String name, String type, int jdbc, int length, Integer scale, Object value, Object later) {
        var column = Column.editor().name(name).type(type, type).jdbcType(jdbc).nativeType(jdbc).position(columns.size() + 1);
        column.optional(!columns.isEmpty()).length(length);
        if (scale != null) {
            column.scale(scale);
        }
        columns.add(column.create());
        values.add(new Object[] {value, later});
        return this;
    }

    private Object[] row(int version) {
        return values.stream().map(pair -> pair[version]).toArray();
    }

    /** A snapshot row, an insert, an update and a delete with its tombstone. */
    private void write(Path file, RelationalDatabaseConnectorConfig config, ValueConverterProvider converters,
            CommonOffsetContext<?> offset, TableId id) throws Exception {
        var adjuster = SchemaNameAdjuster.create();
        Table table = Table.editor().tableId(id).addColumns(columns).setPrimaryKeyNames(columns.get(0).name()).create();
        var naming = SchemaTopicNamingStrategy.create(config);
        TableSchema schema = new TableSchemaBuilder(converters, (column, text) -> Optional.empty(), adjuster, new CustomConverterRegistry(List.of()),
                offset.getSourceInfoSchema(), FieldNameSelector.defaultSelector(adjuster), false,
                EventConvertingFailureHandlingMode.FAIL)
                .create(naming, table, (catalog, owner, name, column) -> true, ColumnMappers.create(config), Table::primaryKeyColumns);
        String topic = naming.dataChangeTopic(id);
        offset.event(id, COMMITTED);
        Struct source = offset.getSourceInfo();
        Struct key = schema.keyFromColumnData(row(0));
        Struct before = schema.valueFromColumnData(row(0));
        Struct after = schema.valueFromColumnData(row(1));
        var envelope = schema.getEnvelopeSchema();
        try (var out = new PrintWriter(Files.newBufferedWriter(file))) {
            for (Struct value : new Struct[] {envelope.read(before, source, COMMITTED), envelope.create(before, source, COMMITTED),
                    envelope.update(before, after, source, COMMITTED), envelope.delete(after, source, COMMITTED), null}) {
                out.println(topic + "\t" + json(topic, schema.keySchema(), key, true) + "\t" + json(topic, envelope.schema(), value, false));
            }
        }
    }

    private static String json(String topic, Schema schema, Struct value, boolean key) {
        if (value == null) {
            return "";
        }
        try (var converter = new JsonConverter()) {
            converter.configure(Map.of("schemas.enable", true), key);
            return new String(converter.fromConnectData(topic, schema, value), java.nio.charset.StandardCharsets.UTF_8);
        }
    }

    private static Configuration config(String name, Map<String, String> modes) {
        var config = Configuration.create().with("topic.prefix", name).with("name", name).with("database.hostname", "localhost")
                .with("database.user", "nobody").with("database.password", "none").with("database.dbname", "ORCL")
                .with("database.names", "shop")
                .with("schema.history.internal", "io.debezium.relational.history.MemorySchemaHistory");
        modes.forEach(config::with);
        return config.build();
    }

    private static void sqlServer(Path file, Map<String, String> modes) throws Exception {
        var config = new SqlServerConnectorConfig(config("sqlserver", modes));
        var converters = new SqlServerValueConverters(config.getDecimalMode(), config.getTemporalPrecisionMode(), config.binaryHandlingMode());
        var position = TxLogPosition.valueOf(Lsn.valueOf("00000027:00000ac0:0002"), Lsn.valueOf("00000027:00000ac0:0001"));
        var offset = new SqlServerOffsetContext(config, position, (SnapshotType) null, true);
        var moment = java.sql.Timestamp.valueOf("2024-02-29 12:34:56.7891234");
        new Samples()
                .with("id", "int", Types.INTEGER, 10, 0, 1, 1)
                .with("c_bigint", "bigint", Types.BIGINT, 19, 0, Long.MAX_VALUE, Long.MIN_VALUE)
                .with("c_smallint", "smallint", Types.SMALLINT, 5, 0, (short) -32768, null)
                .with("c_tinyint", "tinyint", Types.TINYINT, 3, 0, (short) 255, (short) 0)
                .with("c_bit", "bit", Types.BIT, 1, 0, true, false)
                .with("c_decimal", "decimal", Types.DECIMAL, 18, 4, new BigDecimal("-12345678901234.5678"), null)
                .with("c_money", "money", -148, 19, 4, new BigDecimal("922337203685477.5807"), new BigDecimal("-0.0001"))
                .with("c_smallmoney", "smallmoney", -146, 10, 4, new BigDecimal("-214748.3648"), null)
                .with("c_real", "real", Types.REAL, 24, null, 0.1f, -3.4e38f)
                .with("c_float", "float", Types.DOUBLE, 53, null, 0.1, -1.7e308)
                .with("c_date", "date", Types.DATE, 10, 0, java.sql.Date.valueOf("2024-02-29"), java.sql.Date.valueOf("0001-01-01"))
                .with("c_time0", "time", Types.TIME, 8, 0, java.sql.Timestamp.valueOf("1970-01-01 23:59:59"), null)
                .with("c_time7", "time", Types.TIME, 16, 7, java.sql.Timestamp.valueOf("1970-01-01 23:59:59.1234567"), null)
                .with("c_datetime", "datetime", Types.TIMESTAMP, 23, 3, java.sql.Timestamp.valueOf("2024-02-29 12:34:56.787"), null)
                .with("c_smalldatetime", "smalldatetime", Types.TIMESTAMP, 16, 0, java.sql.Timestamp.valueOf("2024-02-29 12:35:00"), null)
                .with("c_datetime2_3", "datetime2", Types.TIMESTAMP, 23, 3, java.sql.Timestamp.valueOf("2024-02-29 12:34:56.789"), null)
                .with("c_datetime2_6", "datetime2", Types.TIMESTAMP, 26, 6, java.sql.Timestamp.valueOf("2024-02-29 12:34:56.789123"), null)
                .with("c_datetime2_7", "datetime2", Types.TIMESTAMP, 27, 7, moment, null)
                .with("c_datetimeoffset", "datetimeoffset", -155, 34, 7,
                        microsoft.sql.DateTimeOffset.valueOf(java.sql.Timestamp.valueOf("2024-02-29 12:34:56.7891234"), 330), null)
                .with("c_char", "char", Types.CHAR, 5, null, "ab   ", null)
                .with("c_nvarchar", "nvarchar", Types.NVARCHAR, 40, null, "naïve 東京 🎲", "")
                .with("c_text", "nvarchar", Types.NVARCHAR, 2147483647, null, "x".repeat(100), null)
                .with("c_uuid", "uniqueidentifier", Types.CHAR, 36, null, "6F9619FF-8B86-D011-B42D-00C04FC964FF", null)
                .with("c_xml", "xml", Types.SQLXML, 0, null, "<a b=\"c\"/>", null)
                .with("c_varbinary", "varbinary", Types.VARBINARY, 20, null, new byte[] {0, -1, 16}, new byte[0])
                .write(file, config, converters, offset, new TableId("shop", "dbo", "kinds"));
    }

    private static void oracle(Path file, Map<String, String> modes) throws Exception {
        var config = new OracleConnectorConfig(config("oracle", modes));
        var converters = new OracleValueConverters(config, new NoDatabase(config));
        var offset = OracleOffsetContext.create().logicalName(config).scn(Scn.valueOf("2868546")).commitScn(CommitScn.valueOf(2868550L))
                .snapshotPendingTransactions(Map.of()).snapshotScn(Scn.valueOf("2868000"))
                .transactionContext(new io.debezium.pipeline.txmetadata.TransactionContext())
                .incrementalSnapshotContext(new io.debezium.pipeline.source.snapshot.incremental.SignalBasedIncrementalSnapshotContext<>())
                .build();
        offset.setTransactionId("02000a00b3020000");
        new Samples()
                .with("ID", "NUMBER", Types.NUMERIC, 9, 0, "1", "1")
                .with("C_NUMBER2", "NUMBER", Types.NUMERIC, 2, 0, "-99", null)
                .with("C_NUMBER4", "NUMBER", Types.NUMERIC, 4, 0, "9999", null)
                .with("C_NUMBER18", "NUMBER", Types.NUMERIC, 18, 0, "-999999999999999999", "999999999999999999")
                .with("C_NUMBER38", "NUMBER", Types.NUMERIC, 38, 0, "99999999999999999999999999999999999999", null)
                .with("C_NUMBER10_2", "NUMBER", Types.NUMERIC, 10, 2, "12345678.9", "-0.01")
                .with("C_NUMBER5_NEGATIVE", "NUMBER", Types.NUMERIC, 5, -2, "1234500", null)
                .with("C_NUMBER", "NUMBER", Types.NUMERIC, 0, null, "123.456789", "-1E-10")
                .with("C_FLOAT", "FLOAT", Types.FLOAT, 126, null, "3.25", null)
                .with("C_BINARY_FLOAT", "BINARY_FLOAT", 100, 4, null, "1.5E+000", null)
                .with("C_BINARY_DOUBLE", "BINARY_DOUBLE", 101, 8, null, "-1.25E+100", null)
                .with("C_VARCHAR2", "VARCHAR2", Types.VARCHAR, 40, null, "naïve 東京", null)
                .with("C_NVARCHAR2", "NVARCHAR2", Types.NVARCHAR, 40, null, "UNISTR('\\6771\\4EAC')", null)
                .with("C_CHAR", "CHAR", Types.CHAR, 5, null, "ab   ", null)
                .with("C_DATE", "DATE", Types.TIMESTAMP, 0, null, "TO_DATE('2024-02-29 12:34:56', 'YYYY-MM-DD HH24:MI:SS')", null)
                .with("C_TIMESTAMP3", "TIMESTAMP(3)", Types.TIMESTAMP, 3, 3, "TO_TIMESTAMP('2024-02-29 12:34:56.789')", null)
                .with("C_TIMESTAMP6", "TIMESTAMP(6)", Types.TIMESTAMP, 6, 6, "TO_TIMESTAMP('2024-02-29 12:34:56.789123')", null)
                .with("C_TIMESTAMP9", "TIMESTAMP(9)", Types.TIMESTAMP, 9, 9, "TO_TIMESTAMP('2024-02-29 12:34:56.789123456')", null)
                .with("C_TIMESTAMP_TZ", "TIMESTAMP(6) WITH TIME ZONE", -101, 6, 6, "TO_TIMESTAMP_TZ('2024-02-29 12:34:56.789123 +05:30')", null)
                .with("C_TIMESTAMP_LTZ", "TIMESTAMP(6) WITH LOCAL TIME ZONE", -102, 6, 6, "TO_TIMESTAMP_TZ('2024-02-29 12:34:56.789123 +00:00')", null)
                .with("C_YEARS", "INTERVAL YEAR(2) TO MONTH", -103, 2, 0, "TO_YMINTERVAL('+03-06')", null)
                .with("C_DAYS", "INTERVAL DAY(2) TO SECOND(6)", -104, 2, 6, "TO_DSINTERVAL('-01 02:03:04.560000')", null)
                .with("C_RAW", "RAW", Types.VARBINARY, 20, null, "HEXTORAW('00FF10')", null)
                .with("C_CLOB", "CLOB", Types.CLOB, 0, null, "a long text", OracleValueConverters.UNAVAILABLE_VALUE)
                .with("C_BLOB", "BLOB", Types.BLOB, 0, null, new byte[] {0, -1, 16}, OracleValueConverters.UNAVAILABLE_VALUE)
                .write(file, config, converters, offset, new TableId("ORCL", "SHOP", "KINDS"));
    }

    /** A connection that is asked for the national character set only, and never opened. */
    private static final class NoDatabase extends OracleConnection {
        NoDatabase(OracleConnectorConfig config) {
            super(config, false);
        }

        @Override
        public oracle.sql.CharacterSet getNationalCharacterSet() {
            return oracle.sql.CharacterSet.make(oracle.sql.CharacterSet.AL16UTF16_CHARSET);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        var other = Map.of("time.precision.mode", "connect", "decimal.handling.mode", "string", "binary.handling.mode", "base64",
                "interval.handling.mode", "string", "lob.enabled", "true");
        sqlServer(folder.resolve("sqlserver.tsv"), Map.of());
        sqlServer(folder.resolve("sqlserver-connect-string-base64.tsv"), other);
        oracle(folder.resolve("oracle.tsv"), Map.of("lob.enabled", "true"));
        oracle(folder.resolve("oracle-connect-string-base64.tsv"), other);
    }
}
