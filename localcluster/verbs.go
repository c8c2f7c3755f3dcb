package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/gitfn/gitfn/localcluster/gitserver"
	"github.com/gitfn/gitfn/localcluster/node"
)

// verb is one thing the program does, and how many arguments it takes; most is -1 for any number.
type verb struct {
	usage       string
	help        string
	least, most int
	run         func(ctx context.Context, o options, stdout, stderr io.Writer) error
}

var order = []string{"up", "down", "info", "stop", "start", "logs", "load", "exec", "build", "check"}

var verbs map[string]verb

// init and not a literal: the verbs' functions read the table for their usage.
func init() {
	verbs = map[string]verb{
		"up":    {"up [--name NAME]", "build what is missing, start the cluster, wait until it is ready", 0, 0, up},
		"down":  {"down [--name NAME]", "end the cluster and remove everything of it but the cache of programs", 0, 0, down},
		"info":  {"info [--name NAME]", "print where everything is, as JSON", 0, 0, info},
		"stop":  {"stop [--name NAME] PART", "stop one part, such as git", 1, 1, control("stop")},
		"start": {"start [--name NAME] PART", "start a part again and wait until it is ready", 1, 1, control("start")},
		"logs":  {"logs [--name NAME] PART", "print the log of a part, or of `supervisor`", 1, 1, logs},
		"load":  {"load [--name NAME] IMAGE.tar...", "put image archives (OCI or docker) into the cluster's containerd", 1, -1, load},
		"exec":  {"exec [--name NAME] -- COMMAND [ARG...]", "run a command inside the cluster's namespaces, as on its node", 1, -1, execute},
		"check": {"check", "say in one sentence why a cluster cannot run on this machine, if it cannot", 0, 0, check},
		"build": {"build [--assets]", "only build the programs into the cache", 0, 0, build},
	}
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "localcluster runs a real Kubernetes on this machine.\n\nUsage:")
	for _, name := range order {
		fmt.Fprintf(w, "  localcluster %-42s %s\n", verbs[name].usage, verbs[name].help)
	}
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		usage(stdout)
		return nil
	}
	switch args[0] {
	case node.VerbInit:
		return node.Init(os.Stdin)
	case node.VerbSupervise:
		return node.Supervise(os.Stdin)
	case node.VerbGit:
		if len(args) != 5 {
			return fmt.Errorf("%s is started by the supervisor only", node.VerbGit)
		}
		return gitserver.Run(args[1], args[2], args[3], args[4])
	case node.VerbGitSSH:
		if len(args) != 2 {
			return fmt.Errorf("%s is started by sshd only", node.VerbGitSSH)
		}
		return gitserver.RunSSH(args[1], os.Getenv("SSH_ORIGINAL_COMMAND"))
	}
	v, ok := verbs[args[0]]
	if !ok {
		usage(stderr)
		return fmt.Errorf("there is no verb %q", args[0])
	}
	o, err := parseOptions(args[0], args[1:], stderr)
	if err != nil {
		return err
	}
	return v.run(ctx, o, stdout, stderr)
}
