package envoylimit_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/envoylimit"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

func write(t *testing.T, folder, name, text string) {
	t.Helper()
	check.Must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
}

func TestReadFolder(t *testing.T) {
	folder := t.TempDir()
	if _, err := envoylimit.ReadFolder(folder); err == nil || !strings.Contains(err.Error(), "has no files") {
		t.Errorf("an empty folder: %v", err)
	}
	check.Is(t, check.Err(envoylimit.ReadFolder(filepath.Join(folder, "none"))), os.ErrNotExist, "no folder")
	write(t, folder, "a.yaml", "domain: a\n")
	write(t, folder, "b.yml", "domain: b\n")
	write(t, folder, ".hidden.yaml", "[")
	write(t, folder, "README.md", "[")
	check.Must(t, os.Mkdir(filepath.Join(folder, "below.yaml"), 0o755))
	check.NoError(t, check.Err(envoylimit.ReadFolder(folder)))
	yml := t.TempDir()
	write(t, yml, "b.yml", "domain: b\n")
	check.NoError(t, check.Err(envoylimit.ReadFolder(yml)))
	write(t, folder, "c.yaml", "\ndomain: a\n")
	want := fmt.Sprintf("%s/c.yaml:2: domain \"a\" is in %s/a.yaml:1 already", folder, folder)
	if _, err := envoylimit.ReadFolder(folder); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// Changed files are read once they have settled, and each state of them is reported once.
func TestWatch(t *testing.T) {
	folder := t.TempDir()
	const limit = "domain: a\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: %s}}]\n"
	write(t, folder, "a.yaml", fmt.Sprintf(limit, "1"))
	current, err := envoylimit.ReadFolder(folder)
	check.Must(t, err)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		reports := make(chan string, 10)
		go envoylimit.Watch(ctx, folder, current, time.Second, func(c *envoylimit.Config, err error) {
			check.Equal(t, c == nil, err != nil, "configuration %v, error %v", c, err)
			reports <- fmt.Sprint(err)
		})
		look := func(want ...string) {
			t.Helper()
			synctest.Wait()
			for _, w := range want {
				select {
				case got := <-reports:
					if !strings.Contains(got, w) {
						t.Errorf("reported %q, want %q", got, w)
					}
				default:
					t.Errorf("nothing reported, want %q", w)
				}
			}
			if len(reports) > 0 {
				t.Errorf("reported %q too", <-reports)
			}
		}
		time.Sleep(5*time.Second + time.Millisecond)
		look()
		write(t, folder, "a.yaml", fmt.Sprintf(limit, "2"))
		time.Sleep(time.Second)
		look() // it may be half written
		time.Sleep(time.Second)
		look("<nil>")
		write(t, folder, "a.yaml", fmt.Sprintf(limit, "many"))
		time.Sleep(5 * time.Second)
		look(`a.yaml:2: descriptors: rate_limit: requests_per_unit: found "many", want 0 to 4294967295`)
		write(t, folder, "a.yaml", fmt.Sprintf(limit, "3"))
		time.Sleep(time.Second)
		write(t, folder, "a.yaml", fmt.Sprintf(limit, "2"))
		time.Sleep(5 * time.Second)
		look("<nil>")
		check.Must(t, os.Rename(filepath.Join(folder, "a.yaml"), filepath.Join(folder, "b.yaml")))
		time.Sleep(5 * time.Second)
		look("<nil>") // messages name files
		check.Must(t, os.Remove(filepath.Join(folder, "b.yaml")))
		time.Sleep(5 * time.Second)
		look("has no files")
		check.Must(t, os.Remove(folder))
		time.Sleep(5 * time.Second)
		look("no such file or directory")
	})
}
