package tablespec

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

func small(t *testing.T) (*Template, string) {
	t.Helper()
	data, err := os.ReadFile("testdata/small.json")
	if err != nil {
		t.Fatal(err)
	}
	template, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return template, string(data)
}

func TestMappingCarriesEverything(t *testing.T) {
	template, _ := small(t)
	got, err := template.Mapping("counter")
	if err != nil {
		t.Fatal(err)
	}
	want := Mapping{
		LogicalID: "Mapping1", FunctionID: "CounterFn", TableID: "Table1",
		Enabled: true, StartingPosition: "TRIM_HORIZON", BatchSize: 50, MaximumBatchingWindowInSeconds: 1,
		ParallelizationFactor: 2, MaximumRetryAttempts: 5, MaximumRecordAgeInSeconds: 21600,
		BisectBatchOnFunctionError: true, ReportBatchItemFailures: true,
		Filters:         []string{`{"eventName":["INSERT"]}`},
		DestinationKind: DestinationS3, DestinationID: "Bucket1",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	f, err := template.Function("Counter")
	if err != nil {
		t.Fatal(err)
	}
	env, err := f.Environment(func(id, attribute string) string { return "<" + id + attribute + ">" })
	if err != nil || env["TABLE_NAME"] != "<Table1>" || env["WINDOWS"] != "hourly" || f.TimeoutSeconds != 60 {
		t.Errorf("function %+v, environment %v, error %v", f, env, err)
	}
}

func TestUnknownPropertiesAreErrors(t *testing.T) {
	_, text := small(t)
	for name, change := range map[string][2]string{
		"table property": {`"BillingMode": "PAY_PER_REQUEST"`,
			`"BillingMode": "PAY_PER_REQUEST", "KinesisStreamSpecification": {}`},
		"index property":       {`"IndexName": "GSI2"`, `"IndexName": "GSI2", "Novelty": 1`},
		"billing mode":         {`"BillingMode": "PAY_PER_REQUEST"`, `"BillingMode": "PROVISIONED"`},
		"mapping property":     {`"BatchSize": 50`, `"BatchSize": 50, "ScalingConfig": {}`},
		"response type":        {`"ReportBatchItemFailures"`, `"ReportNothing"`},
		"foreign stream":       {`["Table1", "StreamArn"]`, `["Bucket1", "Arn"]`},
		"foreign function":     {`{"Ref": "CounterFn"}`, `{"Ref": "Bucket1"}`},
		"foreign destination":  {`["Bucket1", "Arn"]`, `["CounterFn", "Arn"]`},
		"destination as a sum": {`{"Fn::GetAtt": ["Bucket1", "Arn"]}`, `{"Fn::Join": ["", ["a"]]}`},
		"global table":         {`"AWS::DynamoDB::Table"`, `"AWS::DynamoDB::GlobalTable"`},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(text, change[0], change[1], 1)
			if changed == text {
				t.Fatal("the change did not apply")
			}
			if _, err := Parse([]byte(changed)); err == nil {
				t.Error("accepted")
			} else {
				t.Log(err)
			}
		})
	}
}
