// A kube-apiserver with its storage and the garbage collector, in one process: what tests need of a control plane.
//
// The first two arguments are the folder of the storage and a kubeconfig file for the garbage collector; all others are kube-apiserver's.
package main

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

const (
	collectors = 4
	lookEvery  = 200 * time.Millisecond
	syncEvery  = 30 * time.Second
)

func main() {
	folder, kubeconfig := os.Args[1], os.Args[2]
	storage, err := startStorage(folder)
	if err != nil {
		klog.Fatalf("the storage does not start: %v", err)
	}
	go collectGarbage(context.Background(), kubeconfig)
	command := app.NewAPIServerCommand()
	command.SetArgs(append(os.Args[3:], "--etcd-servers="+storage))
	os.Exit(cli.Run(command))
}

// startStorage starts etcd behind a socket in the folder, and returns its address. Nothing is kept: it need not survive.
func startStorage(folder string) (string, error) {
	config := embed.NewConfig()
	config.Dir = filepath.Join(folder, "data")
	config.LogLevel = "error"
	config.UnsafeNoFsync = true
	clients := url.URL{Scheme: "unix", Path: filepath.Join(folder, "clients")}
	peers := url.URL{Scheme: "unix", Path: filepath.Join(folder, "peers")}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return "", err
	}
	<-etcd.Server.ReadyNotify()
	return clients.String(), nil
}

// collectGarbage deletes objects whose owners do not exist, from when the API is ready.
func collectGarbage(ctx context.Context, kubeconfig string) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		klog.Fatalf("the garbage collector cannot read %s: %v", kubeconfig, err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	for client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() != nil {
		time.Sleep(lookEvery)
	}
	objects := metadata.NewForConfigOrDie(config)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	factory := informerfactory.NewInformerFactory(
		informers.NewSharedInformerFactory(client, 0), metadatainformer.NewSharedInformerFactory(objects, 0))
	started := make(chan struct{})
	ignored := map[schema.GroupResource]struct{}{{Resource: "events"}: {}, {Group: "events.k8s.io", Resource: "events"}: {}}
	collector, err := garbagecollector.NewGarbageCollector(ctx, client, objects, mapper, ignored, factory, started)
	if err != nil {
		klog.Fatalf("the garbage collector does not start: %v", err)
	}
	close(started)
	factory.Start(ctx.Done())
	go collector.Sync(ctx, client.Discovery(), syncEvery)
	collector.Run(ctx, collectors, syncEvery)
}
