package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"path/filepath"
)

// checkBuilt reports every named function without an arm64 Linux program in dist. Lambda would
// accept anything, and fail at the first record.
func checkBuilt(dist string, functions ...string) error {
	var problems []error
	for _, name := range functions {
		path := filepath.Join(dist, name, "bootstrap")
		if err := checkProgram(path); err != nil {
			problems = append(problems, fmt.Errorf("function %s: %s: %w; run make build", name, path, err))
		}
	}
	return errors.Join(problems...)
}

func checkProgram(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if file.Machine != elf.EM_AARCH64 {
		return fmt.Errorf("built for %v, not for arm64", file.Machine)
	}
	return nil
}
