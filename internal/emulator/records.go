package emulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// typing corrects DynamoDB Local's responses to GetRecords. They contain {} for an empty map
// instead of {"M":{}}, and the SDK then gives the attribute the value of another one. It is safe
// for concurrent use if the client is.
type typing struct{ client aws.HTTPClient }

// Do sends the request.
func (c typing) Do(r *http.Request) (*http.Response, error) {
	answer, err := c.client.Do(r)
	if err != nil || answer.StatusCode != http.StatusOK ||
		!strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetRecords") {
		return answer, err
	}
	defer answer.Body.Close()
	mended, err := typedRecords(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("records of DynamoDB Local: %w", err)
	}
	answer.Header.Del("X-Amz-Crc32") // it was computed from the original body
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(mended)), int64(len(mended))
	return answer, nil
}

// typedRecords turns every untyped value in the records into a map.
func typedRecords(body io.Reader) ([]byte, error) {
	decoder := json.NewDecoder(body)
	decoder.UseNumber()
	var answer map[string]any
	if err := decoder.Decode(&answer); err != nil {
		return nil, err
	}
	records, _ := answer["Records"].([]any)
	for _, r := range records {
		record, _ := r.(map[string]any)
		change, _ := record["dynamodb"].(map[string]any)
		for _, image := range []string{"Keys", "NewImage", "OldImage"} {
			values, _ := change[image].(map[string]any)
			typeAll(values)
		}
	}
	return json.Marshal(answer)
}

func typeAll(values map[string]any) {
	for _, v := range values {
		typeOne(v)
	}
}

func typeOne(v any) {
	value, ok := v.(map[string]any)
	if !ok {
		return
	}
	if len(value) == 0 {
		value["M"] = map[string]any{}
	}
	entries, _ := value["M"].(map[string]any)
	typeAll(entries)
	list, _ := value["L"].([]any)
	for _, e := range list {
		typeOne(e)
	}
}
