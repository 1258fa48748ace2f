//go:build deploy

package deploy

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// setup invokes the setup function like CloudFormation, with a namespace and the declarations of a
// manifest. It returns the reported status.
func (w *world) setup(t *testing.T, function, namespace, declared string) string {
	t.Helper()
	answers := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		check.NoError(t, err)
		answers <- body
	}))
	defer server.Close()
	event, err := json.Marshal(map[string]any{
		"RequestType": "Update", "ResponseURL": server.URL, "RequestId": "r", "StackId": "s", "LogicalResourceId": "l",
		"PhysicalResourceId": "p", "ResourceType": "Custom::ZaeLimiterSetup",
		"ResourceProperties": map[string]any{
			"Namespaces": []string{namespace}, "AuditRetentionDays": "30",
			"Manifests": []string{"{namespace: " + namespace + ", " + declared + "}"},
		},
	})
	check.Must(t, err)
	w.invoke(t, "Setup", event)
	select {
	case body := <-answers:
		var answer struct{ Status string }
		check.Must(t, json.Unmarshal(body, &answer))
		return answer.Status
	case <-time.After(patience):
		t.Fatalf("%s has not answered", function)
	}
	return ""
}
