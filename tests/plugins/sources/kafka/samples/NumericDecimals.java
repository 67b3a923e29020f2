import java.math.BigDecimal;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;

/** Prints key and value of a flat row, with decimals as Connect's JsonConverter writes them: BASE64 first, then NUMERIC. */
public final class NumericDecimals {
    private static Schema decimal(int scale, int precision) {
        return Decimal.builder(scale).parameter("connect.decimal.precision", "" + precision).optional().build();
    }

    public static void main(String[] arguments) {
        Schema row = SchemaBuilder.struct().name("s.public.orders.Value")
            .field("id", decimal(0, 20)).field("amount", decimal(2, 38)).field("tiny", decimal(20, 30))
            .field("hundreds", decimal(-2, 5)).field("huge", decimal(5, 60)).field("nothing", decimal(2, 12))
            .field("list", SchemaBuilder.array(decimal(1, 10)).optional().build()).field("text", Schema.STRING_SCHEMA).build();
        Schema key = SchemaBuilder.struct().name("s.public.orders.Key").field("id", decimal(0, 20)).build();
        var id = new BigDecimal("18446744073709551615");
        var value = new Struct(row).put("id", id).put("amount", new BigDecimal("-123456789012345678901234567890123456.70"))
            .put("tiny", new BigDecimal("0.00000000000000000001")).put("hundreds", new BigDecimal("-123E+2"))
            .put("huge", new BigDecimal("1234567890123456789012345678901234567890123456789012345.00001"))
            .put("list", List.of(new BigDecimal("0.1"), new BigDecimal("-2.0"))).put("text", "\"amount\":\"1234\"");
        for (String form : List.of("BASE64", "NUMERIC")) {
            for (boolean isKey : List.of(true, false)) {
                var converter = new JsonConverter();
                converter.configure(Map.of("decimal.format", form, "schemas.enable", "true"), isKey);
                var written = isKey ? converter.fromConnectData("t", key, new Struct(key).put("id", id))
                    : converter.fromConnectData("t", row, value);
                System.out.println(new String(written, java.nio.charset.StandardCharsets.UTF_8));
            }
        }
    }
}
