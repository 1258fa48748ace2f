package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

// A question that nobody answers ends with the command, and is no yes.
func TestAQuestionIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, terminal := io.Pipe()
		ctx, interrupt := context.WithCancel(t.Context())
		var errs strings.Builder
		a := &app{in: in, errs: &errs, interrupted: ctx.Done()}
		told := make(chan error, 1)
		go func() { told <- a.sure(false, "Change it?") }()
		synctest.Wait()
		interrupt()
		synctest.Wait()
		select {
		case err := <-told:
			if err == nil || !strings.Contains(err.Error(), "nothing was changed") || status(err) != failed {
				t.Errorf("error %v", err)
			}
		default:
			t.Error("it still waits for an answer")
		}
		terminal.Close()
		synctest.Wait()
	})
}
