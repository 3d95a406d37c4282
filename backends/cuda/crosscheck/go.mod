// A module of its own: gorgonia.org/cu is needed by this test alone, and brings more modules than all of Hologram.
module github.com/hologram-project/hologram/backends/cuda/crosscheck

go 1.26.0

require (
	github.com/hologram-project/hologram v0.0.0
	github.com/stretchr/testify v1.11.1
	gorgonia.org/cu v0.9.6
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/ebitengine/purego v0.11.3 // indirect
	github.com/google/uuid v1.1.1 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/hologram-project/hologram => ../../..
