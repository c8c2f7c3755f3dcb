package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gitfn/gitfn/registry/tenant"
)

// namespace is where gitfn is installed.
const namespace = "gitfn-system"

// image is a line of what hack/image prints.
type image struct {
	Name      string `json:"name"`
	Reference string `json:"reference"`
	Digest    string `json:"digest"`
	Tar       string `json:"tar"`
	Pushed    string `json:"pushed"`
}

// install brings gitfn into the cluster, or up to date there.
func install(ctx context.Context, steps *steps, site *site) error {
	work, err := os.MkdirTemp("", "gitfn-install-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var images map[string]image
	if err := steps.do("gitfn's images are built", func() (err error) {
		images, err = buildImages(ctx, site, work)
		return err
	}); err != nil {
		return err
	}
	if !site.Current {
		if err := steps.do("the node has them", func() error { return loadImages(ctx, site, images) }); err != nil {
			return err
		}
	}
	if _, err := site.kubectl(ctx, "", "-n", namespace, "get", "secret", registryKey); err == nil && !site.Current {
		// An update: the new manager asks for the new images at once.
		if err := steps.do("the registry has the new runtime images", func() error { return pushRuntimes(ctx, site, work, images) }); err != nil {
			return err
		}
	}
	if err := steps.do("gitfn is applied", func() error { return applyGitfn(ctx, site, work, images) }); err != nil {
		return err
	}
	if err := steps.do("the manager and the registry are ready", func() error {
		for _, deployment := range []string{"gitfn-manager", "serverless-docker-registry"} {
			if _, err := site.kubectl(ctx, "", "-n", namespace, "rollout", "status", "deployment/"+deployment, "--timeout=180s"); err != nil {
				return err
			}
		}
		return leads(ctx, site)
	}); err != nil {
		return err
	}
	if site.Current {
		return nil
	}
	return steps.do("the registry has the runtime images", func() error { return pushRuntimes(ctx, site, work, images) })
}

// leads waits until a manager has the lease: only then push hints arrive.
func leads(ctx context.Context, site *site) error {
	return eventually(ctx, time.Minute, func() error {
		addresses, err := site.kubectl(ctx, "", "-n", namespace, "get", "endpointslices", "-l", "kubernetes.io/service-name=gitfn-hooks",
			"-o", "jsonpath={.items[*].endpoints[?(@.conditions.ready)].addresses}")
		if err == nil && addresses == "" {
			err = errors.New("no manager leads yet")
		}
		return err
	})
}

// runtimeImages are the images that Functions are built on.
var runtimeImages = map[string]string{"nodejs22": "runtime-nodejs22", "python313": "runtime-python313"}

func buildImages(ctx context.Context, site *site, work string) (map[string]image, error) {
	names := []string{"manager", "builder", "registry", "registry-gateway", "runtime-nodejs22", "runtime-python313"}
	args := []string{"run", "./hack/image", "--tag", "dev"}
	if site.Current {
		assets, err := command(ctx, nil, filepath.Join(root(), "localcluster"), "go", "run", ".", "build", "--assets")
		if err != nil {
			return nil, err
		}
		args = append(args, "--push", site.Images, "--registry-binary", filepath.Join(strings.TrimSpace(assets), "registry"))
		work = "-"
	} else {
		args = append(args, "--registry-binary", site.Local.RegistryBinary)
	}
	out, err := command(ctx, nil, root(), "go", append(append(args, work), names...)...)
	if err != nil {
		return nil, err
	}
	images := map[string]image{}
	for scanner := bufio.NewScanner(strings.NewReader(out)); scanner.Scan(); {
		var i image
		if err := json.Unmarshal(scanner.Bytes(), &i); err != nil {
			return nil, fmt.Errorf("read what hack/image says: %w", err)
		}
		images[i.Name] = i
	}
	return images, nil
}

// address is how nodes name an image: by a tag that its content gives, so that a
// new image is a new rollout and an old one is none.
func (i image) address() string {
	if i.Pushed != "" {
		return i.Pushed
	}
	repository, _, _ := strings.Cut(i.Reference, ":")
	return repository + ":" + strings.TrimPrefix(i.Digest, "sha256:")[:16]
}

func loadImages(ctx context.Context, site *site, images map[string]image) error {
	have, err := site.ctr(ctx, "images", "list", "--quiet")
	if err != nil {
		return err
	}
	for _, name := range []string{"manager", "builder", "registry", "registry-gateway"} {
		i := images[name]
		if strings.Contains(have, i.address()+"\n") {
			continue
		}
		if err := local(ctx, os.Stderr, "load", "--name", site.Local.Name, i.Tar); err != nil {
			return err
		}
		if _, err := site.ctr(ctx, "images", "tag", "--force", i.Reference, i.address()); err != nil {
			return err
		}
	}
	return nil
}

// applyGitfn writes a kustomize overlay for this cluster and applies it.
func applyGitfn(ctx context.Context, site *site, work string, images map[string]image) error {
	base, err := filepath.Rel(evaluated(work), filepath.Join(evaluated(root()), "config", "default"))
	if err != nil {
		return err
	}
	configuration, err := json.Marshal(configurationOf(site, images))
	if err != nil {
		return err
	}
	kustomization := map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1",
		"kind":       "Kustomization",
		"namespace":  namespace,
		"resources":  []string{base},
		"images":     []any{imageEntry(images["manager"]), imageEntry(images["registry"]), imageEntry(images["registry-gateway"])},
		"configMapGenerator": []any{map[string]any{
			"name": "gitfn-config", "behavior": "replace", "files": []string{"config.yaml"},
		}},
	}
	if bundle := trustBundle(); bundle != nil && !site.Current {
		kustomization["configMapGenerator"] = append(kustomization["configMapGenerator"].([]any), map[string]any{
			"name": "gitfn-trust-bundle", "files": []string{"ca.crt"},
		})
		if err := os.WriteFile(filepath.Join(work, "ca.crt"), bundle, 0o600); err != nil {
			return err
		}
	}
	text, err := json.Marshal(kustomization)
	if err != nil {
		return err
	}
	for file, content := range map[string][]byte{"kustomization.yaml": text, "config.yaml": configuration} {
		if err := os.WriteFile(filepath.Join(work, file), content, 0o600); err != nil {
			return err
		}
	}
	// The namespace and the CRD must be there before what needs them.
	if err := eventually(ctx, 30*time.Second, func() error {
		_, err := site.kubectl(ctx, "", "apply", "--server-side", "--force-conflicts", "-k", work)
		return err
	}); err != nil {
		return err
	}
	return hintSecret(ctx, site)
}

func evaluated(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return path
}

func imageEntry(i image) map[string]string {
	name, _, _ := strings.Cut(i.Reference, ":")
	repository, digest, found := strings.Cut(i.address(), "@")
	if found {
		return map[string]string{"name": name, "newName": repository, "digest": digest}
	}
	repository, tag, _ := strings.Cut(i.address(), ":")
	return map[string]string{"name": name, "newName": repository, "newTag": tag}
}

// The internal registry as build Pods and as nodes reach it.
const (
	pushAddress = "serverless-docker-registry." + namespace + ".svc.cluster.local:5000"
	pullAddress = "localhost:32137"
)

// configurationOf is the manager's configuration for this cluster.
func configurationOf(site *site, images map[string]image) map[string]any {
	runtimes := map[string]string{}
	for name, i := range runtimeImages {
		if runtimes[name] = images[i].Pushed; !site.Current {
			runtimes[name] = pullAddress + "/" + namespace + "/runtimes/" + i + "@" + images[i].Digest
		}
	}
	configuration := map[string]any{
		"registry":      map[string]any{"pushAddress": pushAddress, "pullAddress": pullAddress, "plainHTTP": true},
		"builderImage":  images["builder"].address(),
		"runtimeImages": runtimes,
		"builds":        map[string]any{"hintURL": "http://gitfn-builds." + namespace + ".svc.cluster.local/"},
	}
	if !site.Current {
		// A node of two cores: the presets that the Function API takes there.
		configuration["builds"].(map[string]any)["concurrency"] = 3
		configuration["builds"].(map[string]any)["defaultPreset"] = "slow"
		configuration["functions"] = map[string]any{"defaultPreset": "XS"}
		configuration["git"] = map[string]any{
			"interval": "30s", "minInterval": "1s",
			// The Git server, and what tests serve on this machine.
			"allowAddresses": []string{site.Local.NodeIP + "/32", site.Local.HostIP + "/32"},
			"denyAddresses":  []string{site.Local.PodCIDR, site.Local.ServiceCIDR},
		}
	}
	return configuration
}

// trustBundle is this machine's certificate authorities: one of them may be a
// private one in front of the package registries.
func trustBundle() []byte {
	for _, file := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"} {
		if bundle, err := os.ReadFile(file); err == nil {
			return bundle
		}
	}
	return nil
}

// registryKey is the Secret that the manager makes at its first start.
const registryKey = "gitfn-registry-key"

// pushRuntimes brings the runtime images into the internal registry, where
// builds mount their layers from.
func pushRuntimes(ctx context.Context, site *site, work string, images map[string]image) error {
	text, err := site.kubectl(ctx, "", "-n", namespace, "get", "secret", registryKey, "-o", "go-template={{.data.key | base64decode}}")
	if err != nil {
		return err
	}
	key, err := tenant.ParseKey([]byte(text))
	if err != nil {
		return err
	}
	host, err := serviceIP(ctx, site, "serverless-docker-registry")
	if err != nil {
		return err
	}
	credential, passwordFile := key.Credential(namespace, tenant.Push), filepath.Join(work, "password")
	if err := os.WriteFile(passwordFile, []byte(credential.Password), 0o600); err != nil {
		return err
	}
	for _, i := range runtimeImages {
		err := eventually(ctx, 30*time.Second, func() error { // the node's rules may be behind the Pod
			_, err := command(ctx, nil, root(), "go", "run", "./hack/image", "--tag", strings.TrimPrefix(images[i].Digest, "sha256:")[:16],
				"--push", host+":5000/"+namespace+"/runtimes", "--insecure",
				"--username", credential.Username, "--password-file", passwordFile, "-", i)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func serviceIP(ctx context.Context, site *site, service string) (string, error) {
	return site.kubectl(ctx, "", "-n", namespace, "get", "service", service, "-o", "jsonpath={.spec.clusterIP}")
}
