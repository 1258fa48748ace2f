package cdk_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/option"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// TestTokensPass: tokens are accepted where a text is only written into the template. Where a text
// decides what is declared, they are refused with an explanation.
func TestTokensPass(t *testing.T) {
	const token = "${Token[Stage.42]}"
	for _, key := range keysOfTexts(reflect.TypeFor[cdk.Props]()) {
		props := cdk.Props{}
		value := token
		if key == "tags" {
			value += "=" + token
		}
		known, err := option.Set(&props, key, value)
		if err = errors.Join(err, props.Validate()); !known {
			t.Fatalf("no option %s", key)
		}
		decides := slices.Contains([]string{"billingMode", "removalPolicy", "gsi2Projection"}, key)
		if (err != nil) != decides || err != nil && !strings.Contains(err.Error(), "known while the app runs, not a token") {
			t.Errorf("%s as a token: %v", key, err)
		}
	}
	long := cdk.Props{IAM: cdk.IAMProps{RoleNameFormat: strings.Repeat(token, 3) + "{}"}}
	check.NoError(t, long.Validate(), "a name with tokens, of unknown length")
	declared := cdk.Props{Manifests: []string{token}}
	check.Says(t, declared.Validate(), "manifests: want a value that is known")
}

// keysOfTexts returns the keys of options that are texts, or lists or maps of texts.
func keysOfTexts(props reflect.Type) (keys []string) {
	for f := range props.Fields() {
		key := f.Tag.Get("key")
		switch kind := f.Type.Kind(); {
		case kind == reflect.Struct:
			keys = append(keys, keysOfTexts(f.Type)...)
		case key != "" && (kind == reflect.String || kind == reflect.Slice || kind == reflect.Map):
			keys = append(keys, key)
		}
	}
	return keys
}
