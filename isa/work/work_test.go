package work_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa/work"
)

// stage counts n steps and returns how many it did.
func stage(m *work.Meter, n int) (done int, err error) {
	defer work.Catch(&err)
	for range n {
		m.Step(1)
		done++
	}
	return done, nil
}

func TestMeter(t *testing.T) {
	done, err := stage(nil, 100)
	require.NoError(t, err)
	require.Equal(t, 100, done)

	m := work.New(nil)
	_, err = stage(m, 1e6)
	require.NoError(t, err)
	require.EqualValues(t, 1e6, m.Steps())
	require.Zero(t, (*work.Meter)(nil).Steps())

	ctx, cancel := context.WithCancel(context.Background())
	m = work.New(ctx.Err)
	_, err = stage(m, 1e6)
	require.NoError(t, err)
	cancel()
	for range 3 { // and stays stopped
		done, err = stage(m, 1e6)
		require.ErrorIs(t, err, context.Canceled)
		require.Less(t, done, 10000, "steps after it was to stop")
	}
}

// A panic that is not the meter's goes on, and an error that the stage had set
// gives way to the reason why it stopped.
func TestCatch(t *testing.T) {
	require.PanicsWithValue(t, "other", func() {
		var err error
		defer work.Catch(&err)
		panic("other")
	})
	why := errors.New("why")
	err := func() (err error) {
		defer work.Catch(&err)
		err = errors.New("before")
		work.New(func() error { return why }).Step(1 << 30)
		return err
	}()
	require.Equal(t, why, err)
}
