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

// ReadFolder reads the files of a folder whose names end in .yaml or .yml and do not begin with a dot. Folders
// below are not read. Errors come from the file system or from [Parse]; a folder without such files is one
// too.
func ReadFolder(folder string) (*Config, error) {
	files, err := readFiles(folder)
	if err != nil {
		return nil, err
	}
	return Parse(files...)
}

func readFiles(folder string) ([]File, error) {
	all, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var out []File
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
		out = append(out, File{name, text})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("folder %q has no files that end in .yaml or .yml", folder)
	}
	return out, nil
}

// Watch reads a folder again every so often, which also finds files that were exchanged as a whole. When
// they differ from the current configuration's, and are the same twice in a row, it reports the new
// configuration to changed, or why there is none: then the old one stays in force. It reports each state
// of the files once, and blocks until ctx ends.
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
		changed(Parse(now.files...))
	}
}

// state is the content of a folder.
type state struct {
	files []File
	err   error
}

func (s state) equal(o state) bool {
	return fmt.Sprint(s.err) == fmt.Sprint(o.err) && slices.EqualFunc(s.files, o.files, func(a, b File) bool {
		return a.Name == b.Name && bytes.Equal(a.Text, b.Text)
	})
}
