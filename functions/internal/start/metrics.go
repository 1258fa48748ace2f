package start

import (
	"fmt"
	"io"
	"time"
)

// Metrics returns the writer of metric lines, each a JSON object in one call. Lambda drops lines
// below the function's log level, and treats a line without a level or time as INFO. If INFO would
// be dropped, a line names the configured level.
func Metrics(getenv func(string) string, out io.Writer) io.Writer {
	switch level := getenv("AWS_LAMBDA_LOG_LEVEL"); level {
	case "WARN", "ERROR", "FATAL":
		return levelled{out, level}
	}
	return out
}

type levelled struct {
	out   io.Writer
	level string
}

func (l levelled) Write(line []byte) (int, error) {
	head := fmt.Sprintf(`{"timestamp":%q,"level":%q,`, time.Now().Format(time.RFC3339Nano), l.level)
	if _, err := l.out.Write(append([]byte(head), line[1:]...)); err != nil {
		return 0, err
	}
	return len(line), nil
}
