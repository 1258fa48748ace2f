package tablespec

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
)

func small(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/small.json")
	check.Must(t, err)
	return string(text)
}

func TestFunctionCarriesEverything(t *testing.T) {
	got, err := Parse([]byte(small(t)), "counter")
	check.Must(t, err)
	want := eventsource.DefaultSettings()
	want.BatchSize, want.Window, want.Factor, want.MaxRetries, want.MaxAge = 50, time.Second, 2, 5, 6*time.Hour
	want.Bisect, want.Report, want.Destination = true, true, eventsource.DestinationS3
	want.Filters = []string{`{"eventName":["INSERT"]}`}
	if got.TableID != "Table1" || got.TimeoutSeconds != 60 || got.MemoryMB != 256 ||
		!reflect.DeepEqual(got.Settings, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	env := got.Environment(func(id, attribute string) string { return "<" + id + attribute + ">" })
	if env["TABLE_NAME"] != "<Table1>" || env["WINDOWS"] != "hourly" {
		t.Errorf("environment %v", env)
	}
	plain := strings.NewReplacer(`"BatchSize": 50, `, "", `"MaximumRecordAgeInSeconds": 21600, `, "",
		`"MaximumRetryAttempts": 5,`, "", `"ParallelizationFactor": 2, `, "",
		`"FunctionResponseTypes": ["ReportBatchItemFailures"],`, "",
		`"MaximumBatchingWindowInSeconds": 1`, `"TumblingWindowInSeconds": 60`).Replace(small(t))
	want.BatchSize, want.Window, want.Tumbling, want.Factor = 100, 0, time.Minute, 1
	want.MaxRetries, want.MaxAge, want.Report = -1, -time.Second, false
	if got, err := Parse([]byte(plain), "counter"); err != nil || !reflect.DeepEqual(got.Settings, want) {
		t.Errorf("by default %+v, %v", got.Settings, err)
	}
}

func TestUnknownPropertiesAreErrors(t *testing.T) {
	text := small(t)
	for name, change := range map[string][2]string{
		"mapping property":      {`"BatchSize": 50`, `"BatchSize": 50, "ScalingConfig": {}`},
		"response type":         {`"ReportBatchItemFailures"`, `"ReportNothing"`},
		"foreign stream":        {`["Table1", "StreamArn"]`, `["Bucket1", "Arn"]`},
		"table without stream":  {`["Table1", "StreamArn"]`, `["Table1", "Arn"]`},
		"more than a reference": {`{"Ref": "CounterFn"}`, `{"Ref": "CounterFn", "Or": "Bucket1"}`},
		"foreign function":      {`{"Ref": "CounterFn"}`, `{"Ref": "Bucket1"}`},
		"foreign destination":   {`["Bucket1", "Arn"]`, `["CounterFn", "Arn"]`},
		"destination as a sum":  {`{"Fn::GetAtt": ["Bucket1", "Arn"]}`, `{"Fn::Join": ["", ["a"]]}`},
		"global table":          {`"AWS::DynamoDB::Table"`, `"AWS::DynamoDB::GlobalTable"`},
		"latest records":        {`"TRIM_HORIZON"`, `"LATEST"`},
		"disabled":              {`"BatchSize": 50`, `"BatchSize": 50, "Enabled": false`},
		"two functions":         {`"Bucket1": {"Type": "AWS::S3::Bucket"`, `"Counter": {"Type": "AWS::Lambda::Function"`},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(text, change[0], change[1], 1)
			if changed == text {
				t.Fatal("the change did not apply")
			}
			if _, err := Parse([]byte(changed), "counter"); err == nil {
				t.Error("accepted")
			} else {
				t.Log(err)
			}
		})
	}
}

// TestGoldenMappings checks the deployed mappings against design D12 and D14.
func TestGoldenMappings(t *testing.T) {
	for _, name := range []string{"aggregator", "archiver"} {
		f, err := Deployed(name)
		check.Must(t, err)
		m := f.Settings
		t.Logf("%s: %+v", name, m)
		if !m.Report || !m.Bisect || m.MaxRetries < 0 || m.MaxAge < 0 {
			t.Errorf("%s: no partial responses, no bisecting, or unbounded: %+v", name, m)
		}
		check.Equal(t, m.Destination, eventsource.DestinationS3, "%s: on-failure destination drops the payload", name)
		if len(m.Filters) == 0 {
			t.Errorf("%s: no filters", name)
		}
	}
}
