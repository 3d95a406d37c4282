package asynctest_test

import (
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/backends/conformance"
)

func TestConformance(t *testing.T) {
	o := asynctest.Options{Workspace: 256, Report: func(text string) { t.Error(text) }}
	conformance.Run(t, func() backends.Backend { return asynctest.New(o) })
}
