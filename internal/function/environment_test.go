package function

import "testing"

func TestName(t *testing.T) {
	for deployed, want := range map[string]string{"": "aggregator", "prod-Aggregator-1": "prod-Aggregator-1"} {
		if got := Name(getenv(map[string]string{"AWS_LAMBDA_FUNCTION_NAME": deployed}), "aggregator"); got != want {
			t.Errorf("deployed as %q: %q, want %q", deployed, got, want)
		}
	}
}
