import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Runs Debezium's engine into nothing until it has seen a number of changes.
 * Arguments: the number, a time limit in seconds, then settings as name=value.
 * Prints "events first-to-last-seconds start-to-last-seconds". Deletes count once: tombstones are switched off by setting.
 */
public class NullSink {
    public static void main(String[] arguments) throws Exception {
        long wanted = Long.parseLong(arguments[0]);
        Properties settings = new Properties();
        for (int i = 2; i < arguments.length; i++) {
            int split = arguments[i].indexOf('=');
            settings.setProperty(arguments[i].substring(0, split), arguments[i].substring(split + 1));
        }
        AtomicLong events = new AtomicLong(), first = new AtomicLong(), last = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        DebeziumEngine<ChangeEvent<SourceRecord, SourceRecord>> engine = DebeziumEngine.create(Connect.class)
            .using(settings)
            .notifying((List<ChangeEvent<SourceRecord, SourceRecord>> records,
                        DebeziumEngine.RecordCommitter<ChangeEvent<SourceRecord, SourceRecord>> committer) -> {
                first.compareAndSet(0, System.nanoTime());
                for (ChangeEvent<SourceRecord, SourceRecord> each : records) {
                    committer.markProcessed(each);
                    if (!each.value().topic().startsWith("__")) {
                        events.incrementAndGet();
                    }
                }
                committer.markBatchFinished();
                last.set(System.nanoTime());
                if (events.get() >= wanted) {
                    done.countDown();
                }
            })
            .build();
        long start = System.nanoTime();
        var thread = Executors.newSingleThreadExecutor();
        thread.execute(engine);
        boolean finished = done.await(Long.parseLong(arguments[1]), TimeUnit.SECONDS);
        System.out.printf("%d %.3f %.3f%n", events.get(), (last.get() - first.get()) / 1e9, (last.get() - start) / 1e9);
        System.out.flush();
        engine.close();
        thread.shutdownNow();
        System.exit(finished ? 0 : 1);
    }
}
