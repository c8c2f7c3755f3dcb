package job

import (
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/runtimes"
)

// user is who the stages run as.
const user = 10001

// Where the volumes are mounted. Each stage is told by its arguments.
const (
	sourceDir = "/gitfn-source"
	layersDir = "/gitfn-layers"
	tmpDir    = "/tmp"
	gitDir    = "/gitfn-git"
	inlineDir = "/gitfn-inline"
	pullDir   = "/gitfn-pull"
	pushDir   = "/gitfn-push"
	npmDir    = "/gitfn-packages"
	trustDir  = "/gitfn-trust"
	// programDir is where install finds the builder image, as a volume.
	programDir = "/gitfn"
	program    = "/gitfn/builder"
)

// Names of the volumes.
const (
	volumeSource  = "source"
	volumeLayers  = "layers"
	volumeWork    = "work"
	volumeGit     = "git"
	volumeInline  = "inline"
	volumePull    = "pull"
	volumePush    = "push"
	volumePackage = "packages"
	volumeTrust   = "trust"
	volumeProgram = "program"
	volumeTmp     = "tmp-" // and the stage
)

func fetchContainer(plan string, o Options) corev1.Container {
	c := stage(builder.StageFetch, o.BuilderImage, plan, o)
	c.Command = []string{program, string(builder.StageFetch)}
	c.Args = append(c.Args, "--source="+sourceDir, "--timeout="+o.Timeouts.Fetch.String())
	c.VolumeMounts = append(c.VolumeMounts, mount(volumeSource, sourceDir, false))
	if o.PullSecret != "" {
		c.Args = append(c.Args, "--docker-config="+pullDir)
		c.VolumeMounts = append(c.VolumeMounts, mount(volumePull, pullDir, true))
	}
	c.Args = append(c.Args, reach(o)...)
	if o.InlineConfigMap != "" {
		c.Args = append(c.Args, "--inline="+inlineDir)
		c.VolumeMounts = append(c.VolumeMounts, mount(volumeInline, inlineDir, true))
	}
	if o.GitSecret != "" {
		c.Args = append(c.Args, "--git-credentials="+gitDir, "--git-auth="+o.GitAuth)
		c.VolumeMounts = append(c.VolumeMounts, mount(volumeGit, gitDir, true))
	}
	assist(&c)
	return c
}

func installContainer(plan builder.Plan, planArgument string, o Options) corev1.Container {
	c := stage(builder.StageInstall, o.InstallImage, planArgument, o)
	c.Command = []string{programDir + program, string(builder.StageInstall)}
	c.Args = append(c.Args, "--source="+sourceDir, "--layers="+layersDir,
		"--timeout="+o.Timeouts.Install.String(), "--wait="+(o.Timeouts.Fetch+handOver).String())
	// The package manager works where the files will be, so that what it writes
	// down of paths is right.
	work := runtimes.Default()[plan.Runtime].Dir
	c.VolumeMounts = append(c.VolumeMounts,
		mount(volumeSource, sourceDir, true), mount(volumeLayers, layersDir, false),
		mount(volumeWork, work, false), mount(volumeProgram, programDir, true))
	if o.PackageSecret != "" {
		c.Args = append(c.Args, "--packages="+npmDir)
		c.VolumeMounts = append(c.VolumeMounts, mount(volumePackage, npmDir, true))
	}
	c.Resources = rest(o.Resources)
	return c
}

func pushContainer(plan string, o Options) corev1.Container {
	c := stage(builder.StagePush, o.BuilderImage, plan, o)
	c.Command = []string{program, string(builder.StagePush)}
	c.Args = append(c.Args, "--source="+sourceDir, "--layers="+layersDir,
		"--timeout="+o.Timeouts.Push.String(), "--wait="+(o.Timeouts.Fetch+o.Timeouts.Install+2*handOver).String())
	c.Args = append(c.Args, reach(o)...)
	if o.HintURL != "" {
		c.Args = append(c.Args, "--hint="+o.HintURL)
	}
	c.VolumeMounts = append(c.VolumeMounts, mount(volumeSource, sourceDir, true), mount(volumeLayers, layersDir, true))
	if o.PushSecret != "" {
		c.Args = append(c.Args, "--docker-config="+pushDir)
		c.VolumeMounts = append(c.VolumeMounts, mount(volumePush, pushDir, true))
	}
	assist(&c)
	return c
}

// reach are the arguments of those who connect to what a user may name: a Git
// source, and the registry of a base image.
func reach(o Options) (args []string) {
	for _, cidr := range o.AllowAddresses {
		args = append(args, "--allow="+cidr)
	}
	for _, cidr := range o.DenyAddresses {
		args = append(args, "--deny="+cidr)
	}
	if o.Proxy != "" {
		args = append(args, "--proxy="+o.Proxy, "--no-proxy="+o.NoProxy)
	}
	return args
}

// handOver is how much later than a stage the next may be told: containers of
// one Pod start one after the other, and images are pulled in between.
const handOver = 2 * time.Minute

// stage is what all three have in common.
func stage(s builder.Stage, image, plan string, o Options) corev1.Container {
	c := corev1.Container{
		Name: string(s), Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Args:         []string{plan},
		VolumeMounts: []corev1.VolumeMount{mount(volumeTmp+string(s), tmpDir, false)},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), RunAsNonRoot: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	if o.PlainHTTP {
		c.Args = append(c.Args, "--plain-http")
	}
	if o.TrustBundle != "" {
		c.Args = append(c.Args, "--trust-bundle="+path.Join(trustDir, "ca.crt"))
		c.VolumeMounts = append(c.VolumeMounts, mount(volumeTrust, trustDir, true))
	}
	return c
}

func mount(volume, at string, readOnly bool) corev1.VolumeMount {
	return corev1.VolumeMount{Name: volume, MountPath: at, ReadOnly: readOnly}
}

// What fetch and push request. Their limit is on memory alone: a limit on CPU
// would only make the build slower.
var (
	assistantCPU    = resource.MustParse("10m")
	assistantMemory = resource.MustParse("32Mi")
	assistantLimit  = resource.MustParse("256Mi")
	// assistantHeap makes Go collect before the kernel does.
	assistantHeap = "200MiB"
)

func assist(c *corev1.Container) {
	c.Env = append(c.Env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: assistantHeap})
	c.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: assistantCPU, corev1.ResourceMemory: assistantMemory},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: assistantLimit},
	}
}

// rest is what install gets: the requests of the whole less those of the two
// assistants, and the limits of the whole.
func rest(whole corev1.ResourceRequirements) corev1.ResourceRequirements {
	own := *whole.DeepCopy()
	for name, taken := range map[corev1.ResourceName]resource.Quantity{corev1.ResourceCPU: assistantCPU, corev1.ResourceMemory: assistantMemory} {
		request, found := own.Requests[name]
		if !found {
			continue
		}
		request.Sub(taken)
		request.Sub(taken)
		if request.Sign() < 0 {
			request = resource.MustParse("0")
		}
		own.Requests[name] = request
	}
	return own
}

// Sizes of the volumes. A volume that grows beyond its size evicts the Pod.
var (
	sizeSource = resource.MustParse("1Gi")
	sizeLayers = resource.MustParse("4Gi")
	sizeWork   = resource.MustParse("4Gi")
	sizeTmp    = resource.MustParse("4Gi")
)

func volumes(o Options) []corev1.Volume {
	all := []corev1.Volume{
		empty(volumeSource, sizeSource), empty(volumeLayers, sizeLayers), empty(volumeWork, sizeWork),
		empty(volumeTmp+string(builder.StageFetch), sizeTmp),
		empty(volumeTmp+string(builder.StageInstall), sizeTmp),
		empty(volumeTmp+string(builder.StagePush), sizeTmp),
		{Name: volumeProgram, VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: o.BuilderImage, PullPolicy: corev1.PullIfNotPresent}}},
	}
	if o.PullSecret != "" {
		all = append(all, dockerConfig(volumePull, o.PullSecret))
	}
	if o.PushSecret != "" {
		all = append(all, dockerConfig(volumePush, o.PushSecret))
	}
	if o.PackageSecret != "" {
		all = append(all, secret(volumePackage, o.PackageSecret, true))
	}
	if o.GitSecret != "" {
		all = append(all, secret(volumeGit, o.GitSecret, false))
	}
	if o.InlineConfigMap != "" {
		all = append(all, configMap(volumeInline, o.InlineConfigMap))
	}
	if o.TrustBundle != "" {
		all = append(all, configMap(volumeTrust, o.TrustBundle))
	}
	return all
}

func empty(name string, size resource.Quantity) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}}
}

func secret(name, secretName string, optional bool) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		// Each is mounted in one container alone; readable for the Pod's user, who owns no file of a Secret.
		SecretName: secretName, Optional: &optional, DefaultMode: ptr.To[int32](0o444),
	}}}
}

func dockerConfig(name, secretName string) corev1.Volume {
	volume := secret(name, secretName, false)
	volume.Secret.Items = []corev1.KeyToPath{{Key: corev1.DockerConfigJsonKey, Path: "config.json"}}
	return volume
}

func configMap(name, configMapName string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMapName},
	}}}
}
