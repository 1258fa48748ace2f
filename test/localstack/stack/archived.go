package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/archive"
)

// Archived is the content of the bucket. Locally it also has the malformed records of both
// functions, under another prefix.
type Archived struct {
	Events    map[string]int // how often each id is archived
	Malformed []string       // lines
	Objects   int
}

// Archived reads all objects. An object that is neither an audit event of the namespace nor a
// malformed record is an error.
func (s *Stack) Archived(ctx context.Context, namespace string) (Archived, error) {
	out := Archived{Events: map[string]int{}}
	keys, err := s.S3.Keys(ctx)
	if err != nil {
		return out, err
	}
	out.Objects = len(keys)
	for _, key := range keys {
		text, err := s.S3.Text(ctx, key)
		if err != nil {
			return out, err
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(key, archive.PrefixMalformed) {
				out.Malformed = append(out.Malformed, line)
				continue
			}
			var event struct {
				ID        string `json:"event_id"`
				Namespace string `json:"namespace_id"`
			}
			if err := json.Unmarshal([]byte(line), &event); err != nil || event.ID == "" || event.Namespace != namespace ||
				!strings.HasPrefix(key, archive.PrefixAudit) {
				return out, fmt.Errorf("object %q: %q is no audit event of namespace %q", key, line, namespace)
			}
			out.Events[event.ID]++
		}
	}
	return out, nil
}
