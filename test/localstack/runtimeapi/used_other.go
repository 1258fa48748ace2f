//go:build !linux

package runtimeapi

import "time"

// cpu is not known here.
func cpu(int) time.Duration { return 0 }

// peakMemory is not known here.
func peakMemory(int) int64 { return 0 }
