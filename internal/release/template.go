package release

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Functions are the programs that the stack runs in Lambda.
var Functions = []string{"aggregator", "archiver", "setup"}

// Archive returns the file name of a function's archive in a release.
func Archive(function, version string) string { return function + "-" + version + "-linux-arm64.zip" }

// Zip returns a program as a Lambda archive. The same program always gives the same bytes.
func Zip(program []byte) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	header := &zip.FileHeader{Name: "bootstrap", Method: zip.Deflate}
	header.SetMode(0o755)
	f, err := w.CreateHeader(header)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(program); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// object is a JSON object.
type object = map[string]any

// Template returns the whole stack of a release as a template that needs neither the CDK nor its
// bootstrap. Values that differ between stacks are parameters, and the functions' programs are
// archives of the release in a bucket of the user. synthesized is the template that the CDK app
// makes by default.
func Template(synthesized []byte, version string) ([]byte, error) {
	var t object
	if err := json.Unmarshal(synthesized, &t); err != nil {
		return nil, err
	}
	delete(t, "Rules") // they require the CDK's bootstrap
	t["Parameters"] = parameters()
	t["Conditions"] = object{
		"Notified":  object{"Fn::Not": []any{object{"Fn::Equals": []any{ref("AlarmTopicArn"), ""}}}},
		"Protected": object{"Fn::Equals": []any{ref("DeletionProtection"), "true"}},
	}
	seen := map[string]int{}
	for id, r := range t["Resources"].(object) {
		r := r.(object)
		delete(r, "Metadata") // of the CDK
		properties := r["Properties"].(object)
		seen[r["Type"].(string)]++
		switch r["Type"] {
		case "AWS::DynamoDB::Table":
			properties["TableName"] = ref("TableName")
			properties["DeletionProtectionEnabled"] = object{"Fn::If": []any{"Protected", true, false}}
		case "Custom::ZaeLimiterSetup":
			properties["Namespaces"] = ref("NamespaceNames")
		case "AWS::CloudWatch::Alarm":
			notify := object{"Fn::If": []any{"Notified", []any{ref("AlarmTopicArn")}, ref("AWS::NoValue")}}
			properties["AlarmActions"], properties["OKActions"] = notify, notify
		case "AWS::Lambda::Function":
			name, err := functionOf(id)
			if err != nil {
				return nil, err
			}
			properties["Code"] = object{"S3Bucket": ref("CodeBucket"),
				"S3Key": object{"Fn::Sub": "${CodePrefix}" + Archive(name, version)}}
		}
	}
	if seen["AWS::DynamoDB::Table"] != 1 || seen["AWS::Lambda::Function"] != len(Functions) ||
		seen["Custom::ZaeLimiterSetup"] != 1 || seen["AWS::CloudWatch::Alarm"] == 0 {
		return nil, fmt.Errorf("template of the stack: it has %v", seen)
	}
	return json.Marshal(t)
}

func functionOf(id string) (string, error) {
	for _, name := range Functions {
		if strings.HasPrefix(strings.ToLower(id), name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("template of the stack: function %s is none of %v", id, Functions)
}

func ref(name string) object { return object{"Ref": name} }

func parameters() object {
	return object{
		"TableName": object{"Type": "String", "Default": "zae-limiter", "AllowedPattern": "[A-Za-z0-9_.-]{3,255}",
			"Description": "What clients open the table by. Another name later makes another, empty table."},
		"NamespaceNames": object{"Type": "CommaDelimitedList", "Default": "default",
			"Description": "Names of namespaces, which are registered; none is ever removed."},
		"AlarmTopicArn": object{"Type": "String", "Default": "",
			"Description": "SNS topic that is notified of alarms; empty: they only show their state."},
		"DeletionProtection": object{"Type": "String", "Default": "false", "AllowedValues": []any{"true", "false"},
			"Description": "Whether the table is protected. Switch it on once the stack is made: a first " +
				"deployment that fails could not delete it."},
		"CodeBucket": object{"Type": "String",
			"Description": "Bucket, in the region of the stack, that has the archives of the functions."},
		"CodePrefix": object{"Type": "String", "Default": "",
			"Description": "What their keys begin with there, such as limiter/."},
	}
}
