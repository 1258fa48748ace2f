package admin

// Hash is what a manifest is recorded by.
var Hash = Manifest.hash
