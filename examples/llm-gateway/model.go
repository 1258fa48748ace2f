package main

import (
	"context"
	"strings"
	"time"
)

// prompt is what a client asks for.
type prompt struct {
	Prompt    string `json:"prompt"`
	MaxTokens int64  `json:"max_tokens"`
}

// tokens is about what the prompt itself takes: four letters are a token.
func (p prompt) tokens() int64 { return int64(len(p.Prompt))/4 + 1 }

// model answers a prompt: it calls emit with each piece of the answer and how many
// tokens that has taken, and ends with emit's error or with ctx's.
type model func(ctx context.Context, p prompt, emit func(text string, tokens int64) error) error

// parrot is a model that repeats the prompt, a word in 50 ms, until it has used up its
// tokens.
func parrot(ctx context.Context, p prompt, emit func(string, int64) error) error {
	words := strings.Fields(p.Prompt)
	for i := range p.MaxTokens {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
		if len(words) == 0 {
			return nil
		}
		if err := emit(words[int(i)%len(words)]+" ", 1); err != nil {
			return err
		}
	}
	return nil
}
