import java.util.Map;
import java.util.function.Function;

import com.fasterxml.jackson.databind.ObjectMapper;

/** Asks Python: a JSON object in, one out. */
public class TidegateAsked {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Function python;

    public TidegateAsked(Function python) {
        this.python = python;
    }

    /** The answer. An error of Python, which is a text in its answer, is thrown. */
    public Map ask(String what, Map given) {
        given.put("what", what);
        try {
            Map answer = (Map) JSON.readValue((String) this.python.apply(JSON.writeValueAsString(given)), Map.class);
            if (answer.get("error") != null) {
                throw new RuntimeException((String) answer.get("error"));
            }
            return answer;
        } catch (java.io.IOException error) {
            throw new RuntimeException(error);
        }
    }
}
