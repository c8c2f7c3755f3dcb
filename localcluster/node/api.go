package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/gitfn/gitfn/localcluster/cluster"
)

// API asks the API server of a cluster, as its administrator. It only reads.
type API struct {
	url    string
	client *http.Client
}

// NewAPI reads the administrator's certificate from the state directory.
func NewAPI(s cluster.Spec) (*API, error) {
	cert, err := tls.LoadX509KeyPair(s.Dir.Path("pki", "kubeconfig-client.crt"), s.Dir.Path("pki", "kubeconfig-client.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(s.Dir.Path("pki", "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &API{url: s.APIURL(), client: &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool},
			DisableKeepAlives: true,
		},
	}}, nil
}

// Get reads a path, and decodes the JSON answer into a non-nil answer. Any status but 200 is an error.
func (a *API) Get(ctx context.Context, path string, answer any) error {
	return get(ctx, a.client, a.url+path, answer)
}

func get(ctx context.Context, client *http.Client, url string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s: %.300s", url, res.Status, body)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(body, answer)
}

// loopback asks health endpoints of this very namespace, whose certificates are self-signed.
var loopback = &http.Client{
	Timeout: 2 * time.Second,
	Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	},
}

// answers returns a check that a URL answers 200.
func answers(url string) func(context.Context) error {
	return func(ctx context.Context) error { return get(ctx, loopback, url, nil) }
}

// Wait asks every 100 ms until the answer is nil or the context ends; it returns the last answer.
func Wait(ctx context.Context, ask func(context.Context) error) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

func runQuietly(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %s: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// controlClient returns a client for the supervisor's socket; the host in its URLs does not matter.
func controlClient(dir cluster.Dir, timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", dir.Control())
		},
		DisableKeepAlives: true,
	}}
}
