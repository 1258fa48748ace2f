//go:build deploy

package deploy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// alerted deploys the stack with a bus as the target of alerts, and then with a topic. It adds the
// documented recipe to the bus, with an address of this process instead of Slack's. Without the
// permission nothing is sent, and nothing is blocked.
func (w *world) alerted(t *testing.T) {
	arrived := make(chan string, 10)
	slack := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		check.NoError(t, err)
		arrived <- string(body)
	}))
	defer slack.Close()
	resets := time.Date(time.Now().UTC().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339)
	for _, c := range []struct {
		name, action, target, want string
	}{
		{"bus", "events:PutEvents", w.busOfRecipe(t, slack.URL),
			`{"text": "by-bus has spent 40 % of budget, until ` + resets + `"}`},
		{"topic", "sns:Publish", w.topicTo(t, slack.URL, arrived), `by-topic has spent 40 % of budget`},
	} {
		dir := w.synth(t, c.name, stack, append([]string{"alertTargetArn=" + c.target, "thresholds=80,budget=40"},
			second...), nil)
		w.mustCDK(t, "deploy", "--app", dir, "--require-approval", "never")
		w.first = dir
		role, policy := w.role(t, "Aggregator")
		event := w.spending(t, "by-"+c.name)
		for _, without := range []string{c.action, ""} {
			w.limit(t, role, policy.without(without, ""))
			check.MustEqual(t, w.invoke(t, "Aggregator", event), `{"batchItemFailures":[]}`,
				"%s, without %q", c.name, without)
		}
		select {
		case got := <-arrived:
			if got != c.want && !strings.Contains(got, c.want) {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		case <-time.After(patience):
			t.Fatalf("%s: nothing arrives", c.name)
		}
		if n := len(arrived); n > 0 {
			t.Errorf("%s: %d more arrived: also without %s", c.name, n, c.action)
		}
	}
}

// spending returns a batch of one record: an entity has spent half of a yearly quota.
func (w *world) spending(t *testing.T, entity string) []byte {
	t.Helper()
	now := time.Now().UnixMilli()
	budget := bucket.Limit{Name: "budget", Capacity: 10 * bucket.Milli, Period: bucket.QuotaPeriod, Reset: "m0h0D1M1@UTC"}
	state := bucket.New([]bucket.Limit{budget}, 0, 1, now).Take([]int64{5 * bucket.Milli, 1000})
	b := table.Shard{Namespace: w.namespace(t), Entity: entity, Resource: "api", State: state}
	return streamtest.Payload(streamtest.Record{Sequence: fmt.Sprint(now), Created: now, New: b.Item()})
}

// busOfRecipe creates a bus and, by the documentation, the parts that post its events to an
// address. The emulator's CloudFormation has no connections and destinations.
func (w *world) busOfRecipe(t *testing.T, address string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(w.emulator.root, "docs", "budgets-and-quotas.md"))
	check.Must(t, err)
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	type properties struct {
		EventPattern map[string]any `yaml:"EventPattern"`
		Targets      []struct {
			InputTransformer struct {
				InputPathsMap map[string]string `yaml:"InputPathsMap"`
				InputTemplate string            `yaml:"InputTemplate"`
			} `yaml:"InputTransformer"`
		} `yaml:"Targets"`
	}
	var recipe struct {
		Rule struct {
			Properties properties `yaml:"Properties"`
		} `yaml:"Rule"`
	}
	check.Must(t, yaml.Unmarshal([]byte(text), &recipe))
	p := recipe.Rule.Properties
	p.EventPattern["detail"] = map[string]any{"percent": []any{map[string]any{"numeric": []any{">=", 40}}}}
	pattern, err := json.Marshal(p.EventPattern)
	check.Must(t, err)
	e := eventbridge.NewFromConfig(w.config(root))
	name := aws.String("alerts")
	bus, err := e.CreateEventBus(t.Context(), &eventbridge.CreateEventBusInput{Name: name})
	check.Must(t, err)
	connection, err := e.CreateConnection(t.Context(), &eventbridge.CreateConnectionInput{Name: name,
		AuthorizationType: types.ConnectionAuthorizationTypeApiKey,
		AuthParameters: &types.CreateConnectionAuthRequestParameters{
			ApiKeyAuthParameters: &types.CreateConnectionApiKeyAuthRequestParameters{
				ApiKeyName: aws.String("Authorization"), ApiKeyValue: aws.String("unused")}}})
	check.Must(t, err)
	slack, err := e.CreateApiDestination(t.Context(), &eventbridge.CreateApiDestinationInput{Name: name,
		ConnectionArn: connection.ConnectionArn, HttpMethod: types.ApiDestinationHttpMethodPost,
		InvocationEndpoint: aws.String(address)})
	check.Must(t, err)
	check.Must(t, check.Err(e.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: name, EventBusName: name,
		EventPattern: aws.String(string(pattern))})))
	out, err := e.PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: name, EventBusName: name,
		Targets: []types.Target{{Id: name, Arn: slack.ApiDestinationArn,
			RoleArn: aws.String("arn:aws:iam::" + account + ":role/any"),
			InputTransformer: &types.InputTransformer{InputPathsMap: p.Targets[0].InputTransformer.InputPathsMap,
				InputTemplate: aws.String(p.Targets[0].InputTransformer.InputTemplate)}}}})
	if err != nil || out.FailedEntryCount > 0 {
		t.Fatalf("%v %+v", err, out)
	}
	return *bus.EventBusArn
}

// topicTo creates a topic and subscribes an address to it.
func (w *world) topicTo(t *testing.T, address string, arrived <-chan string) string {
	t.Helper()
	s := sns.NewFromConfig(w.config(root))
	topic, err := s.CreateTopic(t.Context(), &sns.CreateTopicInput{Name: aws.String("alerts")})
	check.Must(t, err)
	if _, err := s.Subscribe(t.Context(), &sns.SubscribeInput{TopicArn: topic.TopicArn, Protocol: aws.String("http"),
		Endpoint: aws.String(address)}); err != nil {
		t.Fatal(err)
	}
	var asked struct{ Type, Token string }
	select {
	case got := <-arrived:
		if err := json.Unmarshal([]byte(got), &asked); err != nil || asked.Type != "SubscriptionConfirmation" {
			t.Fatalf("%s: %v", got, err)
		}
	case <-time.After(patience):
		t.Fatal("nobody asks for a confirmation")
	}
	if _, err := s.ConfirmSubscription(t.Context(), &sns.ConfirmSubscriptionInput{TopicArn: topic.TopicArn,
		Token: aws.String(asked.Token)}); err != nil {
		t.Fatal(err)
	}
	return *topic.TopicArn
}
