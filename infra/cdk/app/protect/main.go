// Protect sets the stack policy: CloudFormation then refuses every update that would replace or
// delete a resource that holds data, whatever its source. It takes the arguments of the deployment;
// together with cdk.json they name the stack and the data that it may lose, which the policy leaves
// out. make deploy runs it before the deployment, and again, without mayLose, after it, even if it
// failed:
//
//	go run -C infra/cdk ./app/protect [-after] -- [the arguments that cdk gets]
//
// It ignores a stack that does not exist yet, and one whose creation failed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"

	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/deployed"
	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/holding"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	err := run(ctx, os.Args[1:])
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	after := len(args) > 0 && args[0] == "-after"
	stack, mayLose, err := chosen(settings, args)
	if err != nil {
		return err
	}
	if after {
		mayLose = nil
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	formation := cloudformation.NewFromConfig(cfg)
	there, err := holds(ctx, formation, stack)
	if errors.Is(err, errNoStack) && !after {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stack policy of %s: %w", stack, err)
	}
	kept := slices.DeleteFunc(there, func(id string) bool { return slices.Contains(mayLose, id) })
	_, err = formation.SetStackPolicy(ctx, &cloudformation.SetStackPolicyInput{
		StackName: aws.String(stack), StackPolicyBody: aws.String(policy(kept)),
	})
	if err != nil {
		return fmt.Errorf("stack policy of %s: %w", stack, err)
	}
	fmt.Printf("stack policy of %s: %s\n", stack, summary(kept))
	return nil
}

var errNoStack = errors.New("there is no such stack")

// holds returns the logical ids of a stack's resources that hold data. A policy may only name
// resources of the stack: otherwise CloudFormation refuses it.
func holds(ctx context.Context, formation *cloudformation.Client, stack string) (ids []string, err error) {
	text, err := deployed.Template(ctx, formation, stack)
	if err != nil {
		return nil, err
	}
	if text == nil {
		return nil, errNoStack
	}
	var template struct{ Resources map[string]any }
	if err := json.Unmarshal(text, &template); err != nil {
		return nil, fmt.Errorf("its template: %w", err)
	}
	return slices.DeleteFunc(holding.IDs(), func(id string) bool { return template.Resources[id] == nil }), nil
}

// settings is the file that the cdk command-line tool reads, relative to infra/cdk.
const settings = "../../cdk.json"

// chosen returns the name of the stack and the ids that it may lose, from the context in the file,
// which may be missing, and from the context arguments of the cdk command-line tool, which take
// precedence.
func chosen(path string, args []string) (stack string, mayLose []string, err error) {
	var file struct{ Context map[string]any }
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	stack = "zae-limiter-go"
	set := func(key string, values []string) {
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		switch key {
		case "zae-limiter:stackName":
			stack = strings.Join(values, ",")
		case "zae-limiter:mayLose":
			mayLose = values
		}
	}
	for key, value := range file.Context {
		var values []string
		switch value := value.(type) {
		case string:
			values = strings.Split(value, ",")
		case []any:
			for _, v := range value {
				values = append(values, fmt.Sprint(v))
			}
		}
		set(key, values)
	}
	for _, a := range args {
		for _, option := range []string{"--context=", "-c=", "-c"} {
			if pair, ok := strings.CutPrefix(a, option); ok {
				a = pair
				break
			}
		}
		key, value, _ := strings.Cut(a, "=")
		set(key, strings.Split(value, ","))
	}
	return stack, mayLose, nil
}

// policy returns a policy that allows all updates except replacing or deleting the kept resources.
func policy(kept []string) string {
	type statement struct {
		Effect, Principal string
		Action, Resource  []string
	}
	statements := []statement{{"Allow", "*", []string{"Update:*"}, []string{"*"}}}
	if len(kept) > 0 {
		var ids []string
		for _, id := range kept {
			ids = append(ids, "LogicalResourceId/"+id)
		}
		statements = append(statements, statement{"Deny", "*", []string{"Update:Replace", "Update:Delete"}, ids})
	}
	text, err := json.Marshal(map[string]any{"Statement": statements})
	if err != nil {
		panic(fmt.Sprintf("bug: stack policy: %v", err))
	}
	return string(text)
}

func summary(kept []string) string {
	if len(kept) > 0 {
		return "no update replaces or deletes " + strings.Join(kept, ", ")
	}
	return "an update may replace or delete everything"
}
