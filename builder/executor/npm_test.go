package executor

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/builder"
)

func TestClassifyNpm(t *testing.T) {
	rows := []struct {
		name   string
		output string
		class  builder.Class
		says   string
	}{
		{"no such package", "npm error code E404\nnpm error 404 Not Found - GET https://registry.example/@scope%2fpad - Not found\nnpm error 404\nnpm error 404  '@scope/pad@^1.0.0' is not in this registry.",
			builder.ClassDependencyNotFound, "the package registry registry.example has no @scope/pad@^1.0.0; check its name, or name its registry in .npmrc"},
		{"no such package, as only the URL tells", "npm error code E404\nnpm error 404 Not Found - GET https://registry.example/@scope%2fpad - Not found",
			builder.ClassDependencyNotFound, "the package registry registry.example has no @scope/pad; check its name, or name its registry in .npmrc"},
		{"no such version, with the mark of old npm", "npm ERR! code ETARGET\nnpm ERR! notarget No matching version found for left-pad@^99.0.0.\nnpm ERR! notarget In most cases",
			builder.ClassDependencyNotFound, "the package registry has no version that fits left-pad@^99.0.0"},
		{"no credential", "npm error code E401\nnpm error 401 Unauthorized - GET https://user:hunter22@npm.example:8443/pad - authentication required",
			builder.ClassDependencyAuth, "the package registry npm.example:8443 refused the credential; check .npmrc in Secret serverless-package-registry-config"},
		{"a credential without rights, and no URL", "npm error code E403\nnpm error 403 403 Forbidden",
			builder.ClassDependencyAuth, "the package registry refused the credential; check .npmrc in Secret serverless-package-registry-config"},
		{"no name for the host", "npm error code ENOTFOUND\nnpm error syscall getaddrinfo\nnpm error errno ENOTFOUND\nnpm error network request to https://npm.example/pad failed, reason: getaddrinfo ENOTFOUND npm.example",
			builder.ClassDependencyUnavailable, "the package registry npm.example does not answer: ENOTFOUND, request to https://npm.example/pad failed, reason: getaddrinfo ENOTFOUND npm.example"},
		{"the registry is broken", "npm error code E503\nnpm error 503 Service Unavailable - GET https://npm.example/pad",
			builder.ClassDependencyUnavailable, "the package registry npm.example does not answer: E503, Service Unavailable - GET https://npm.example/pad"},
		{"an unknown authority", "npm error code SELF_SIGNED_CERT_IN_CHAIN\nnpm error errno SELF_SIGNED_CERT_IN_CHAIN\nnpm error request to https://npm.example/pad failed, reason: self-signed certificate in certificate chain",
			builder.ClassInstallFailed, "the certificate of the package registry npm.example is not trusted; add its authority to gitfn's trust bundle (SELF_SIGNED_CERT_IN_CHAIN, request to https://npm.example/pad failed, reason: self-signed certificate in certificate chain)"},
		{"a lock file that does not fit", "npm error code EUSAGE\nnpm error\nnpm error `npm ci` can only install packages when your package.json and package-lock.json are in sync.",
			builder.ClassInstallFailed, "package.json and the lock file do not fit each other; run npm install and commit the lock file"},
		{"a conflict", "npm error code ERESOLVE\nnpm error ERESOLVE unable to resolve dependency tree",
			builder.ClassInstallFailed, "dependencies conflict: ERESOLVE, unable to resolve dependency tree"},
		{"a script that fails", "npm error code 7\nnpm error path /usr/src/app/function/node_modules/canvas\nnpm error command failed\nnpm error command sh -c node-gyp rebuild",
			builder.ClassInstallFailed, "a script of canvas failed with code 7"},
		{"a script of the Function that fails", "npm error code 1\nnpm error path /usr/src/app/function\nnpm error command failed",
			builder.ClassInstallFailed, "a script of the Function itself failed with code 1"},
		{"a package from Git", "npm error code ENOENT\nnpm error syscall spawn git\nnpm error path git\nnpm error errno -2\nnpm error enoent An unknown git error occurred",
			builder.ClassInstallFailed, "a dependency comes from Git, and the runtime's image has no git; publish it as a package"},
		{"another code", "npm error code EWHATEVER\nnpm error something happened",
			builder.ClassInstallFailed, "npm ci failed with EWHATEVER: something happened"},
		{"no code", "npm error Cannot read properties of undefined",
			builder.ClassInstallFailed, "npm ci failed: Cannot read properties of undefined"},
		{"of two errors the last counts", "npm error code E404\nnpm error code EUSAGE", builder.ClassInstallFailed, "package.json and the lock file do not fit each other; run npm install and commit the lock file"},
		{"nothing", "", builder.ClassInstallFailed, "npm ci ended with code 1; see its output"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			class, message := classifyNpm("ci", 1, strings.Split(row.output, "\n"))
			g.Expect(message).To(Equal(row.says))
			g.Expect(class).To(Equal(row.class))
		})
	}
}

func TestKilledNpm(t *testing.T) {
	g := NewWithT(t)
	_, message := classifyNpm("ci", -1, nil)
	g.Expect(message).To(ContainSubstring("was killed"))
}

func TestOutput(t *testing.T) {
	t.Run("secrets of every form are masked", func(t *testing.T) {
		g := NewWithT(t)
		dir := t.TempDir()
		g.Expect(os.WriteFile(filepath.Join(dir, ".npmrc"), []byte(strings.Join([]string{
			"registry=https://npm.example/",
			"//npm.example/:_authToken=\"npm_tokentoken\"",
			"//b.example/:_auth = dXNlcjpodW50ZXIyMg==", // user:hunter22
			"//c.example/:_password=c2VjcmV0d29yZA==",   // secretword
			"//d.example/:_authToken=${NPM_TOKEN}",
			"//e.example/:_authToken=abc",
			"# _authToken=comment",
		}, "\n")), 0o600)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(dir, "pip.conf"), []byte("[global]\nindex-url = https://me:p%40ssw0rd@pypi.example/simple\n"), 0o600)).To(Succeed())
		out := &bytes.Buffer{}
		tail := newTail(out, secretsOf(dir), nil)
		said := "npm_tokentoken dXNlcjpodW50ZXIyMg== hunter22 secretword c2VjcmV0d29yZA== p@ssw0rd p%40ssw0rd abc registry npm.example"
		fmt.Fprintln(tail, said)
		g.Expect(tail.String()).To(Equal("*** *** *** *** *** *** *** abc registry npm.example"))
		g.Expect(out.String()).To(Equal(tail.String() + "\n"))
	})
	t.Run("a secret that comes in two writes is masked", func(t *testing.T) {
		g := NewWithT(t)
		tail := newTail(&bytes.Buffer{}, []string{"hunter22"}, nil)
		fmt.Fprint(tail, "it is hun")
		fmt.Fprint(tail, "ter22, said he")
		g.Expect(tail.String()).To(Equal("it is ***, said he"))
	})
	t.Run("control sequences and overwritten lines are dropped", func(t *testing.T) {
		g := NewWithT(t)
		tail := newTail(&bytes.Buffer{}, nil, nil)
		fmt.Fprint(tail, "\x1b[31mred\x1b[0m\x07 \x1b]0;title\x07end\u202e\nprogress 1%\rprogress 2%\r\n\xff\xfe")
		g.Expect(tail.String()).To(Equal("red end\nprogress 2%\n"))
	})
	t.Run("the end is kept, of lines and of bytes", func(t *testing.T) {
		g := NewWithT(t)
		tail := newTail(&bytes.Buffer{}, nil, nil)
		for i := range 100 {
			fmt.Fprintf(tail, "line %d\n", i)
		}
		g.Expect(tail.String()).To(HavePrefix("line 80\n"))
		g.Expect(tail.String()).To(HaveSuffix("line 99"))
		fmt.Fprint(tail, strings.Repeat("é", 20_000))
		g.Expect(len(tail.String())).To(BeNumerically("<=", tailBytes))
	})
}

func TestNpmEnvironment(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	bundle := filepath.Join(dir, "bundle.crt")
	g.Expect(os.WriteFile(bundle, []byte("PEM\n"), 0o600)).To(Succeed())
	o := &options{tmp: dir, packages: "/packages", trustBundle: bundle, environ: []string{"PATH=/bin", "HOME=/root"}}
	environ, err := o.npmEnviron()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(environ).To(ContainElements("HOME="+dir+"/home", "npm_config_cache="+dir+"/npm", "npm_config_userconfig=/packages/.npmrc",
		"NODE_EXTRA_CA_CERTS="+bundle, "SSL_CERT_FILE="+dir+"/ca.crt"))
	all, err := os.ReadFile(dir + "/ca.crt")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(all)).To(HaveSuffix("PEM\n"))
}

// TestKillOthers runs itself as the first process of its own PID namespace,
// with its own /proc, and there leaves daemons behind.
func TestKillOthers(t *testing.T) {
	if os.Getenv("GITFN_TEST_FIRST_PROCESS") != "" {
		firstProcess()
	}
	g := NewWithT(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestKillOthers$")
	cmd.Env = append(os.Environ(), "GITFN_TEST_FIRST_PROCESS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 { // then the namespace needs one for users around it
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	g.Expect(string(out)).To(Equal("before: more\nafter: alone\n"))
}

func firstProcess() {
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil || os.Getpid() != 1 {
		fmt.Println("cannot mount: ", err)
		os.Exit(1)
	}
	// A daemon that left its session, one that ignores what can be ignored, one
	// that makes others all the time.
	script := exec.Command("/bin/sh", "-c", `setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 0.01; done' &
setsid sh -c 'while :; do (sleep 5 &) ; sleep 0.02; done' &
sleep 0.2`)
	_ = script.Run()
	if is, _ := alone(); !is {
		fmt.Println("before: more")
	}
	if err := killOthers(); err != nil {
		fmt.Println(err)
	}
	if is, _ := alone(); is {
		fmt.Println("after: alone")
	}
	os.Exit(0)
}
