package envoylimit

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ReadFolder reads a configuration as envoyproxy/ratelimit has it: each file of the folder whose
// name ends in .yaml or .yml and does not begin with a dot is the rules of one domain. Folders
// below are not read. The error comes from the file system, or names the file and the line of all
// that has not the form of rules, or else of all that is not acceptable:
//
//	edge.yaml:4: descriptors: rate_limit: unit: found "fortnight", want second, minute, hour, day, week, month or year
//
// detailed_metric and value_to_metric are read, and do nothing: usage is counted for every bucket.
// Refused are a folder without such files, keys that are not known or not expressible (quota_mode),
// a * that does not end a value, a rate limit without requests_per_unit, and a domain in two files.
func ReadFolder(folder string) (*Config, error) {
	files, err := readFiles(folder)
	if err != nil {
		return nil, err
	}
	return parse(files...)
}

func readFiles(folder string) ([]file, error) {
	all, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var out []file
	for _, f := range all {
		ext := filepath.Ext(f.Name())
		if f.IsDir() || strings.HasPrefix(f.Name(), ".") || ext != ".yaml" && ext != ".yml" {
			continue
		}
		name := filepath.Join(folder, f.Name())
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out = append(out, file{name, text})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("folder %q has no files that end in .yaml or .yml", folder)
	}
	return out, nil
}

// Watch reads a folder again at an interval, and also finds files that were replaced as a whole.
// When the files differ from the current configuration's, and are the same twice in a row, it calls
// changed with the new configuration, or with the error if there is none: then the old one stays in
// force. It reports each state of the files once, and blocks until ctx ends.
func Watch(ctx context.Context, folder string, current *Config, every time.Duration, changed func(*Config, error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	reported := state{files: current.files}
	last := reported
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var now state
		now.files, now.err = readFiles(folder)
		settled := now.equal(last)
		if last = now; !settled || now.equal(reported) {
			continue
		}
		if reported = now; now.err != nil {
			changed(nil, now.err)
			continue
		}
		changed(parse(now.files...))
	}
}

type state struct {
	files []file
	err   error
}

func (s state) equal(o state) bool {
	return fmt.Sprint(s.err) == fmt.Sprint(o.err) && slices.EqualFunc(s.files, o.files, func(a, b file) bool {
		return a.name == b.name && bytes.Equal(a.text, b.text)
	})
}
