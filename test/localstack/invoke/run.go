package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
	"github.com/zeroae/zae-limiter-go/test/localstack/s3"
)

// runner runs one function on events.
type runner struct {
	function string
	table    string // an existing table to use; "" creates one per event
	out      io.Writer
	engine   *engine.Engine
}

// all runs the function on every event, even after a failure.
func (r *runner) all(ctx context.Context, events []event) (err error) {
	kind := engine.Dynoxide
	if engine.ExternalAsked() {
		kind = engine.External
	}
	if r.engine, err = engine.Start(ctx, kind); err != nil {
		return err
	}
	defer r.engine.Stop()
	var failed []string
	for _, e := range events {
		fmt.Fprintf(r.out, "=== %s %s\n", r.function, filepath.Base(e.path))
		ok, err := r.one(ctx, e)
		if err != nil {
			return fmt.Errorf("event %q: %w", e.path, err)
		}
		if !ok {
			failed = append(failed, filepath.Base(e.path))
		}
	}
	fmt.Fprintf(r.out, "=== %d events, %d failed\n", len(events), len(failed))
	if len(failed) > 0 {
		return fmt.Errorf("%s failed on %s", r.function, strings.Join(failed, ", "))
	}
	return nil
}

// one runs the function once in a new process and prints the result; ok is false if it failed.
func (r *runner) one(ctx context.Context, e event) (ok bool, err error) {
	name, drop, err := r.tableFor(ctx)
	if err != nil {
		return false, err
	}
	defer drop()
	objects, err := s3.Start(engine.UniqueName("invoke"))
	if err != nil {
		return false, err
	}
	defer objects.Stop()
	if r.table == "" {
		if err := r.seed(ctx, name, e.payload); err != nil {
			return false, err
		}
	}
	before, err := r.items(ctx, name)
	if err != nil {
		return false, err
	}
	result, logs, err := r.invoke(ctx, name, objects, e.payload)
	if err != nil {
		return false, err
	}
	after, err := r.items(ctx, name)
	if err != nil {
		return false, err
	}
	fmt.Fprintf(r.out, "--- logs\n%s--- response, after %v\n%s\n", logs, result.Duration, result.Payload)
	if result.FunctionError != "" {
		fmt.Fprintf(r.out, "--- failed: %s %s\n", result.FunctionError, result.ErrorType)
	}
	r.printItems(before, after)
	return result.FunctionError == "", r.printObjects(ctx, objects)
}

// invoke starts the function's process, sends it the payload, and ends it.
func (r *runner) invoke(ctx context.Context, name string, objects *s3.Server, payload []byte) (runtimeapi.Result,
	string, error) {
	env := append(r.engine.Env(), objects.Env()...)
	env = append(env, function.EnvTableName+"="+name,
		function.EnvArchiveBucketName+"="+objects.Bucket, function.EnvDeadLetterBucketName+"="+objects.Bucket)
	host, err := runtimeapi.Start(runtimeapi.Config{Binary: runtimeapi.Built(r.function), Env: env, Name: r.function})
	if err != nil {
		return runtimeapi.Result{}, "", err
	}
	defer host.Close()
	result, err := host.Invoke(ctx, payload)
	return result, host.Logs(), err
}

// tableFor returns the table to use; drop removes it if it was created here.
func (r *runner) tableFor(ctx context.Context) (name string, drop func(), err error) {
	if r.table != "" {
		return r.table, func() {}, nil
	}
	name = engine.UniqueName("invoke")
	if _, err := limitertable.Create(ctx, r.engine.DynamoDB(), name); err != nil {
		return "", nil, err
	}
	return name, func() {
		if err := r.engine.Remove(name); err != nil {
			fmt.Fprintln(r.out, err)
		}
	}, nil
}

// seed stores the newest image of every bucket in the payload, like the table at the time of the
// delivery. A payload without buckets needs none.
func (r *runner) seed(ctx context.Context, name string, payload []byte) error {
	batch, err := stream.Decode(payload)
	if err != nil {
		return nil // the function reports the error
	}
	for _, c := range batch.Changes {
		put := item.Put{Item: c.New.Item()}
		if _, err := r.engine.DynamoDB().PutItem(ctx, put.Input(name)); err != nil {
			return fmt.Errorf("store %q: %w", c.New.Key().PK, err)
		}
	}
	return nil
}

// items reads the whole table, formatted, by key.
func (r *runner) items(ctx context.Context, name string) (map[item.Key]string, error) {
	all, err := r.engine.Items(ctx, name)
	out := map[item.Key]string{}
	for _, it := range all {
		out[item.KeyOf(it)] = string(itemtest.JSON(it))
	}
	return out, err
}

// printItems shows the function's writes: new items completely, of others the changed attributes.
func (r *runner) printItems(before, after map[item.Key]string) {
	maps.DeleteFunc(after, func(k item.Key, text string) bool { return text == before[k] })
	keys := slices.SortedFunc(maps.Keys(after), func(a, b item.Key) int { return strings.Compare(a.PK+a.SK, b.PK+b.SK) })
	fmt.Fprintf(r.out, "--- %d items written\n", len(keys))
	for _, k := range keys {
		old := strings.Split(before[k], "\n")
		if before[k] == "" {
			fmt.Fprintf(r.out, "new %s  %s\n", k.PK, k.SK)
		} else {
			fmt.Fprintf(r.out, "changed %s  %s\n", k.PK, k.SK)
		}
		for line := range strings.Lines(after[k]) {
			if line = strings.TrimRight(line, "\n"); line != "{" && line != "}" && !slices.Contains(old, line) {
				fmt.Fprintf(r.out, "  %s\n", strings.TrimRight(strings.TrimSpace(line), ","))
			}
		}
	}
}

// printObjects shows the objects that the function stored, decompressed.
func (r *runner) printObjects(ctx context.Context, objects *s3.Server) error {
	keys, err := objects.Keys(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "--- %d objects stored\n", len(keys))
	for _, key := range keys {
		text, err := objects.Text(ctx, key)
		if err != nil {
			return err
		}
		var indented bytes.Buffer
		if json.Indent(&indented, []byte(text), "", "  ") == nil {
			text = indented.String()
		}
		fmt.Fprintf(r.out, "%s\n  %s\n", key, strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  "))
	}
	return nil
}
