package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// pace is how often the servers are asked when latency is what counts.
const pace = 50

// samples are the figures of one server.
type samples struct {
	// rates are requests per second, one for each round.
	rates []float64
	// costs are seconds of processor time per request, one for each round.
	costs []float64
	// latencies are seconds, one for each request at the steady pace.
	latencies []float64
}

// measure takes the figures of a language's servers, round by round.
func measure(ctx context.Context, l language, o options) ([]row, error) {
	var both [2]samples
	var running [2]*process
	for i, command := range [][]string{l.bare, l.server} {
		p, err := start(ctx, command, l.env)
		if err != nil {
			return nil, err
		}
		defer p.stop()
		running[i] = p
		// The first seconds are the compiler's.
		if _, err := p.load(ctx, 2*time.Second, &samples{}); err != nil {
			return nil, err
		}
	}
	for range o.rounds {
		for i, p := range running {
			if _, err := p.load(ctx, o.length, &both[i]); err != nil {
				return nil, err
			}
		}
	}
	if err := steady(ctx, running, time.Duration(o.rounds)*o.length, &both); err != nil {
		return nil, err
	}
	rows := rowsOf(l.name, both)
	for _, name := range o.presets {
		var limited [2]samples
		if err := underLimit(limits[name], running, func() error {
			return steady(ctx, running, time.Duration(o.rounds)*o.length, &limited)
		}); err != nil {
			return nil, fmt.Errorf("preset %s: %w", name, err)
		}
		rows = append(rows, latencyRow("runtime-"+l.name+"-latency-"+name, limited, 0))
	}
	return rows, nil
}

var (
	ratePattern  = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	countPattern = regexp.MustCompile(`([0-9]+) requests in`)
	badPattern   = regexp.MustCompile(`(?m)^\s*(Non-2xx.*|Socket errors.*)$`)
)

// load lets wrk ask p without a pause, and adds the figures to s.
func (p *process) load(ctx context.Context, length time.Duration, s *samples) (string, error) {
	before, err := p.cpu()
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "wrk", "-t1", "-c16", fmt.Sprintf("-d%ds", int(length.Seconds())), p.url).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("wrk (Debian package wrk): %w: %s", err, out)
	}
	after, err := p.cpu()
	if err != nil {
		return "", err
	}
	rate, count := ratePattern.FindSubmatch(out), countPattern.FindSubmatch(out)
	if rate == nil || count == nil {
		return "", fmt.Errorf("wrk says no rate: %s", out)
	}
	if bad := badPattern.Find(out); bad != nil {
		return "", errors.New("wrk: " + string(bad))
	}
	perSecond, err := strconv.ParseFloat(string(rate[1]), 64)
	if err != nil {
		return "", err
	}
	n, err := strconv.ParseFloat(string(count[1]), 64)
	if err != nil || n == 0 {
		return "", fmt.Errorf("wrk got no answer: %s", out)
	}
	s.rates = append(s.rates, perSecond)
	s.costs = append(s.costs, (after-before).Seconds()/n)
	return string(out), nil
}

// steady asks the servers in turn at a steady pace over one connection each, and
// adds the time of every answer.
func steady(ctx context.Context, servers [2]*process, length time.Duration, both *[2]samples) error {
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	ticks := time.NewTicker(time.Second / pace / time.Duration(len(servers)))
	defer ticks.Stop()
	for i := range int(length.Seconds() * pace * float64(len(servers))) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks.C:
		}
		which := i % len(servers)
		begin := time.Now()
		if err := servers[which].ask(ctx, client); err != nil {
			return err
		}
		both[which].latencies = append(both[which].latencies, time.Since(begin).Seconds())
	}
	return nil
}
