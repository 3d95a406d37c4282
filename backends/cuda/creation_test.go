package cuda

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
)

// BenchmarkCreation prints which of the driver's calls take how long where a device is opened
// and a stream is made, each for the first time in the process: so it says something
// of its first round alone (-test.bench Creation -test.benchtime 1x).
func BenchmarkCreation(b *testing.B) {
	var total time.Duration
	round := func(name string, f func()) {
		start := time.Now()
		f()
		took := time.Since(start)
		total += took
		fmt.Printf("%10.3f ms  %s\n", took.Seconds()*1e3, name)
	}
	for b.Loop() {
		var api *driver.API
		var err error
		round("driver opened, cuInit", func() { api, err = driver.Load() })
		if driver.IsUnavailable(err) {
			b.Skip(err)
		}
		require.NoError(b, err)
		timed := timedCalls(api, func(name string, took time.Duration) {
			fmt.Printf("%22.3f ms  %s\n", took.Seconds()*1e3, name)
		})
		backend := &Backend{load: func() (*driver.API, error) { return timed, nil }, cubins: openCubins}
		var d backends.Device
		var s backends.Stream
		round("devices listed", func() { _, err = backend.Devices() })
		require.NoError(b, err)
		round("device opened", func() { d, err = backend.Open(0) })
		require.NoError(b, err)
		round("stream made", func() { s, err = d.NewStream() })
		require.NoError(b, err)
		round("host memory", func() { _, err = d.AllocHost(4) })
		require.NoError(b, err)
		round("second stream made", func() { _, err = d.NewStream() })
		require.NoError(b, err)
		var m backends.Memory
		round("4 KB allocated", func() { m, err = d.Alloc(4096) })
		require.NoError(b, err)
		round("and filled", func() { _, err = s.Fill(m.Addr, 1, 4, 1024) })
		require.NoError(b, err)
	}
	b.ReportMetric(total.Seconds()*1e3, "ms")
}

// timedCalls is an API that tells how long each call takes.
func timedCalls(api *driver.API, tell func(name string, took time.Duration)) *driver.API {
	timed := *api
	v := reflect.ValueOf(&timed).Elem()
	for i := range v.NumField() {
		symbol := v.Type().Field(i).Tag.Get("sym")
		if symbol == "" {
			continue
		}
		call := reflect.ValueOf(api).Elem().Field(i)
		v.Field(i).Set(reflect.MakeFunc(call.Type(), func(args []reflect.Value) []reflect.Value {
			start := time.Now()
			result := call.Call(args)
			tell(symbol, time.Since(start))
			return result
		}))
	}
	return &timed
}
