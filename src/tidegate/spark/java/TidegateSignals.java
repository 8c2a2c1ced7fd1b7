import sun.misc.Signal;
import sun.misc.SignalHandler;

/** Hears SIGTERM in place of Java, and does nothing. Not SIG_IGN: that would go on to every process of this JVM. */
public class TidegateSignals implements SignalHandler {
    public void handle(Signal signal) {
    }

    /** False where Java leaves its signals alone (-Xrs). */
    public boolean outliveSigterm() {
        try {
            Signal.handle(new Signal("TERM"), this);
            return true;
        } catch (IllegalArgumentException reserved) {
            return false;
        }
    }
}
