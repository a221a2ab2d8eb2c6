{{- define "kube-vhostuser.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "kube-vhostuser.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "kube-vhostuser.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kube-vhostuser.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kube-vhostuser.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kube-vhostuser.labels" -}}
{{ include "kube-vhostuser.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kube-vhostuser.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "kube-vhostuser.selinux" -}}
{{- if or .Values.selinux.enabled .Values.openshift.enabled -}}true{{- end -}}
{{- end -}}

{{- define "kube-vhostuser.cniBinDir" -}}
{{- default (ternary "/var/lib/cni/bin" "/opt/cni/bin" .Values.openshift.enabled) .Values.cni.binDir -}}
{{- end -}}
