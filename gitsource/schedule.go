package gitsource

import (
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule is a cron expression that was read.
type Schedule struct{ cron cron.Schedule }

// ParseSchedule reads a cron expression of five fields, or a descriptor such as @hourly, with an optional
// CRON_TZ=Europe/Berlin before it. Times are in UTC when it names no zone.
func ParseSchedule(expression string) (schedule Schedule, err error) {
	// cron/v3.0.1 slices before it looks: ParseStandard("TZ=UTC") panics. May go when cron returns an error there.
	defer func() {
		if recover() != nil {
			schedule, err = Schedule{}, fmt.Errorf("read schedule %q: it is no cron expression", expression)
		}
	}()
	parsed, err := cron.ParseStandard(expression)
	if err != nil {
		return Schedule{}, fmt.Errorf("read schedule %q: %w", expression, err)
	}
	return Schedule{cron: parsed}, nil
}

// Next is the first time after t that the schedule names. A schedule that names none within five years,
// such as the 30th of February, gives an error.
func (s Schedule) Next(t time.Time) (time.Time, error) {
	if s.cron == nil {
		return time.Time{}, errors.New("ask schedule: it is empty")
	}
	next := s.cron.Next(t.UTC())
	if next.IsZero() {
		return time.Time{}, errors.New("ask schedule: it names a date that never comes")
	}
	return next.UTC(), nil
}

// NextPoll says when a source that was looked at last is to be looked at again: by its schedule when it has one,
// else after its interval. Times are plain: spreading them is the caller's business. A zero last means now was
// never, and gives the zero time: look at once. An interval that is not positive is an error, as is a
// schedule that cannot be read or never comes.
func NextPoll(last time.Time, interval time.Duration, schedule string) (time.Time, error) {
	if schedule != "" {
		parsed, err := ParseSchedule(schedule)
		if err != nil {
			return time.Time{}, err
		}
		next, err := parsed.Next(last)
		if err != nil || last.IsZero() {
			return time.Time{}, err
		}
		return next, nil
	}
	if interval <= 0 {
		return time.Time{}, fmt.Errorf("compute next poll: interval %s is not positive", interval)
	}
	if last.IsZero() {
		return time.Time{}, nil
	}
	return last.Add(interval), nil
}
